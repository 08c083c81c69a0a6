-- mutex/release: release the mutex as its holder; the next waiter gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] used       the highest fencing token in use, of those that were reserved; left out when all count as used
--
-- Returns {"released"}    free, or already the next waiter's
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
--#strict
-- A hand-over is a grant, so behind a closed gate the lock is only deleted.
--#include gate
local lock, queue, token, gate = KEYS[1], KEYS[2], ARGV[1], KEYS[5]

if redis.call('EXISTS', queue) ~= 0 and not gate_is_open(gate) then
  local held = redis.pcall('GET', lock)
  if not held then return { 'expired' } end
  if held ~= token then return { 'taken' } end
  redis.call('DEL', lock)
  return { 'released' }
end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, used = ARGV[1], ARGV[2]

local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
if not held then return { 'expired' } end
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held ~= token then return { 'taken' } end

-- The plain case: no waiter, and no reserved number. Without reserved numbers EXISTS on the queue is cheaper.
if not used and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lock)
  return { 'released' }
end
local ahead = redis.pcall('ZRANGE', queue, '0', '1') -- an error for another type has no first
local first = ahead[1]
if used and not first and redis.pcall('GET', fence) == used .. ':' .. used then
  redis.call('DEL', lock)
  return { 'released' }
end

-- These names cost a release without waiters nothing, because they stand below it.
local FENCED_AT, FENCED = 23, 46 -- of a token (lua/prelude.lua)
local TIME_LENGTH, FENCE_LENGTH, SAME_10000_S, FENCE_KEPT_MS = 16, 33, 6, '614800000' -- of a fence (lua/fence.lua)
local TOKEN_START, TOKEN_END, POLLED_START = 17, 47, 48 -- of an entry (lua/queue.lua)

-- The plain turn: the first waiter has a channel with a subscriber, and the clock has 16 digits and has passed
-- all numbers; its grant takes the unused ones, or there are none. What memory pressure cannot refuse is written first,
-- and what a wrong type refuses before anything that stays.
local time = redis.call('TIME')
local next, passed_ms, range, channel, out
if first and #time[1] == 10 then
  next = string.sub(first, TOKEN_START, TOKEN_END)
  passed_ms, range, channel = string.match(first, '^%d+ %-?%d+ (%d+) (%d+) (.+)$', POLLED_START)
end
if used and channel and string.byte(next, FENCED_AT) ~= FENCED then channel = nil end
-- PUBLISH would count a monitor of all channels too. A channel with this end belongs to the slot, in a cluster.
local sharded = channel and string.sub(channel, -2) == ':s'
local heard = channel and redis.pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)
if heard and not heard.err and tonumber(heard[2]) > 0 then
  local dropped = redis.pcall('HDEL', waiters, next)
  -- Without an entry it is of a waiter that was not found when it left.
  if type(dropped) == 'number' then redis.call('ZREM', queue, first) end
  if dropped == 1 then
    out = first
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local minted, before, passed = '0', false, true
    if string.byte(next, FENCED_AT) == FENCED then
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
      if type(sent) == 'number' then return { 'released' } end
    end
    -- Refused, so it is undone; the general part behind the fragments decides about the lock.
    if type(before) == 'string' then redis.call('SET', fence, before, 'KEEPTTL') end
  end
end

--#include prelude fence queue member holds grant
if out then queue_add(queue, waiters, out, queue_score(queue_entry(out).priority)) end
grant_give_back(holds_read(lock, fence, clock_of(time)), queue, waiters, '1', token, tonumber(used) or 0)
return { 'released' }
