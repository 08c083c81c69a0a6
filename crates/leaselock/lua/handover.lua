-- handover: the plain hand-over of a mutex, to the first waiter in the queue. Every other case is for lua/grant.lua.

-- Writes: hands the lock of the caller over, and returns true; false when it has changed nothing, but for numbers that
-- it minted in vain; or false and the entry that was taken out of the queue, while the lock is as the waiter would have
-- had it.
-- It is plain if the first waiter has a channel with a subscriber. What memory pressure cannot refuse stands behind the
-- number, which it can.
local function handover_plain(lock, queue, waiters, fence, time)
  local FENCED_AT, FENCED = 23, 46 -- of a token (lua/prelude.lua)
  local TOKEN_START, TOKEN_END, POLLED_START = 17, 47, 48 -- of an entry (lua/queue.lua)

  local ahead = redis.pcall('ZRANGE', queue, '0', '1') -- an error for another type has no first
  local first = ahead[1] or ''
  local next = string.sub(first, TOKEN_START, TOKEN_END)
  local passed_ms, range, channel = string.match(first, '^%d+ %-?%d+ (%d+) (%d+) (.+)$', POLLED_START)
  if not channel then return false end
  -- PUBLISH would count a monitor of all channels too. A channel with this end belongs to the slot, in a cluster.
  local sharded = string.sub(channel, -2) == ':s'
  local heard = redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if heard.err or tonumber(heard[2]) == 0 then return false end

  local minted = '0'
--#inline now
  if string.byte(next, FENCED_AT) == FENCED then
--#inline mint
    if not is_minted then return false end
--#inline number
    minted = number
    if range ~= '1' and minted - now <= 1000 then -- as in lua/fence.lua
      local last = string.format('%.0f', minted + range - 1)
      local last_id = string.sub(last, 1, -4) .. '-' .. tonumber(string.sub(last, -3))
      redis.call('XADD', fence, 'MAXLEN', '0', last_id, '-', '-')
    else
      range = '1'
    end
  end
  if redis.pcall('HDEL', waiters, next) ~= 1 then return false end -- it was not found when it left
  redis.call('ZREM', queue, first)
  redis.call('SET', lock, next, 'PX', passed_ms)
  local message = 'grant ' .. minted .. ' ' .. range .. ' ' .. now .. ' ' .. passed_ms .. ' '
    .. (ahead[2] and '1' or '0') .. ' ' .. next
  local sent = sharded and redis.pcall('SPUBLISH', channel, message) or redis.pcall('PUBLISH', channel, message)
  if type(sent) == 'number' then return true end
  return false, first
end
