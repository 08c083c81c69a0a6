-- handover: the plain hand-over of a mutex, to the first waiter in the queue. Every other case is for lua/grant.lua.

-- Writes: hands the lock of the caller over. `ahead` is what ZRANGE has said about the first two entries; `time` is the
-- server's; `used` is as in mutex/release. True when it has done so. Otherwise the caller still holds the lock, and the
-- entry that is returned was taken out of the queue.
-- It is plain if the first waiter has a channel with a subscriber, the clock has 16 digits and has passed all numbers, and
-- the grant takes the unused ones, or there are none. What memory pressure cannot refuse is written first, and what a
-- wrong type refuses before anything that stays.
local function handover_plain(lock, queue, waiters, fence, ahead, time, used)
  local FENCED_AT, FENCED = 23, 46 -- of a token (lua/prelude.lua)
  local TIME_LENGTH, FENCE_LENGTH, SAME_10000_S, FENCE_KEPT_MS = 16, 33, 6, '614800000' -- of a fence (lua/fence.lua)
  local TOKEN_START, TOKEN_END, POLLED_START = 17, 47, 48 -- of an entry (lua/queue.lua)

  local first = ahead[1]
  if not first or #time[1] ~= 10 then return false end
  local next = string.sub(first, TOKEN_START, TOKEN_END)
  local passed_ms, range, channel = string.match(first, '^%d+ %-?%d+ (%d+) (%d+) (.+)$', POLLED_START)
  local is_fenced_next = string.byte(next, FENCED_AT) == FENCED
  if not channel or used and not is_fenced_next then return false end
  -- PUBLISH would count a monitor of all channels too. A channel with this end belongs to the slot, in a cluster.
  local sharded = string.sub(channel, -2) == ':s'
  local heard = redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if heard.err or tonumber(heard[2]) == 0 then return false end
  local dropped = redis.pcall('HDEL', waiters, next)
  -- Without an entry it is of a waiter that was not found when it left.
  if type(dropped) == 'number' then redis.call('ZREM', queue, first) end
  if dropped ~= 1 then return false end

  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local minted, before, passed = '0', false, true
  if is_fenced_next then
    minted = now
    local micros = time[2] + range - 1
    local last = micros > 99999 and micros < 1000000 and time[1] .. micros or string.format('%.0f', now + range - 1)
    before = redis.pcall('SET', fence, now .. ':' .. last, 'KEEPTTL', 'GET')
    if type(before) == 'table' then
      passed = false
    elseif before then
      local last_fence = string.match(before, '^%d+:(%d+)$')
      passed = last_fence and #last_fence == TIME_LENGTH and #before == FENCE_LENGTH and before < now
        and (last_fence < now
          or used and #used == TIME_LENGTH and used < now and string.sub(before, 1, TIME_LENGTH) <= used and used < last_fence)
    end
    if not before or passed and string.sub(before, 1, SAME_10000_S) ~= string.sub(now, 1, SAME_10000_S) then
      redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
    end
  end
  if passed then
    redis.call('SET', lock, next, 'PX', passed_ms)
    local message = 'grant ' .. minted .. ' ' .. range .. ' ' .. now .. ' ' .. passed_ms .. ' '
      .. (ahead[2] and '1' or '0') .. ' ' .. next
    local sent = sharded and redis.pcall('SPUBLISH', channel, message) or redis.pcall('PUBLISH', channel, message)
    if type(sent) == 'number' then return true end
  end
  -- Refused, so it is undone; the caller's general part decides about the lock.
  if type(before) == 'string' then redis.call('SET', fence, before, 'KEEPTTL') end
  return false, first
end
