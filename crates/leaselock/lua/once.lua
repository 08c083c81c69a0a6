-- once: the record of work that runs once for a key. A run holds the name alone, as a mutex does; the record lies beside
-- it and outlives it, because a lease lasts seconds and a result days.
-- A hash. 'state' is 'kind token fence attempt at_us'; kind: 'run', a run has begun and not ended, and crashed if its token
-- does not hold the name any more; 'done', it has a result; 'fail', it failed, and another may begin from at_us on; 'kept', a
-- failure that is kept as a result is. Behind a 'run' come the first token of the call that began it, and the number of the
-- request that did. 'fingerprint' is that of the request. 'result' is what the latest run that ended returned, or the text of
-- its failure. 'before' is the state when the present run began, and 'before_ends_ms' when the record of that
-- would have ended, by the server's clock. 'channel' is where changes are broadcast (lua/broadcast.lua).
local ONCE_RUN_KEPT_MS = 604800000 -- a run that has not ended is remembered for seven days at least

-- Reads only: the record, nil when there is none; nil and true when the key has another type.
local function once_read(record)
  local kept, other = of_type(redis.pcall('HMGET', record, 'state', 'fingerprint', 'channel'))
  if other then return nil, true end
  local kind, token, fence, attempt, at_us, call, request =
    string.match(kept[1] or '', '^(%a+) (%S+) (%d+) (%d+) (%d+) ?(%S*) ?(%d*)$')
  if not kind then return nil end
  return { kind = kind, token = token, fence = fence, attempt = tonumber(attempt), at_us = tonumber(at_us),
    call = call, request = tonumber(request) or 0, fingerprint = kept[2], channel = kept[3] or '' }
end

-- Reads only: the result, or the text of a failure.
local function once_result(record)
  return redis.call('HGET', record, 'result') or ''
end

local function once_state(r)
  local state = table.concat({ r.kind, r.token, r.fence, r.attempt, whole(r.at_us) }, ' ')
  return r.kind == 'run' and state .. ' ' .. r.call .. ' ' .. whole(r.request) or state
end

-- Reads only: in how many milliseconds another run may begin.
local function once_rest_ms(r, now_us)
  return math.max(0, math.ceil((r.at_us - now_us) / 1000))
end
