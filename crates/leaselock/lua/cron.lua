-- cron: the record of the ticks of a name. The run of a tick holds the name alone, as a mutex does; the record lies beside
-- it and outlives it, so that a tick that has begun is over for all other hosts.
-- A hash. 'state' is 'kind token attempt tick_us', of the latest tick that has begun; kind: 'run', its run has begun and not
-- finished, and crashed if its token does not hold the name any more; 'done', it has finished. 'skipped' is the latest tick
-- that was left out because the name was held. 'call' is the first token of the call that claimed the tick, and 'request' the
-- number of the request that did. 'before' is the state when its run began. 'channel' is where ends of runs are broadcast
-- (lua/broadcast.lua). 'schedule' is what the latest service with a schedule says of it, for operators: no script reads it.
local CRON_KEPT_MS = '34560000000' -- 400 days: even a yearly schedule is known from one tick to the next
local CRON_AHEAD_US = 86400000000 -- a tick so far ahead was claimed while the server's clock was wrong

-- Reads only: the record, without a kind when no tick is known; nil and true when the key has another type.
local function cron_read(record)
  local kept, other = of_type(redis.pcall('HMGET', record, 'state', 'skipped', 'call', 'request', 'channel'))
  if other then return nil, true end
  local kind, token, attempt, tick_us = string.match(kept[1] or '', '^(%a+) (%S+) (%d+) (%d+)$')
  return { kind = kind, token = token or '', attempt = tonumber(attempt) or 0, tick_us = tonumber(tick_us) or 0,
    skipped_us = tonumber(kept[2] or nil) or 0, call = kept[3] or '', request = tonumber(kept[4] or nil) or 0,
    channel = kept[5] or '' }
end

-- Without the ticks that are a day ahead of the server's clock: otherwise every tick until then would be over.
local function cron_without_future(r, now_us)
  local latest_us = now_us + CRON_AHEAD_US
  if r.tick_us > latest_us then r.kind, r.token, r.attempt, r.tick_us = nil, '', 0, 0 end
  if r.skipped_us > latest_us then r.skipped_us = 0 end
end

-- Only with a claim that has written, so that a viewer costs no write of its own.
local function cron_keep(record, schedule)
  if schedule ~= '' then redis.call('HSET', record, 'schedule', schedule) end
  redis.call('PEXPIRE', record, CRON_KEPT_MS)
end

local function cron_state(kind, token, attempt, tick_us)
  return table.concat({ kind, token, attempt, whole(tick_us) }, ' ')
end
