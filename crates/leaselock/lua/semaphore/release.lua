-- semaphore/release: give permits back; the waiters that fit then are granted in the same step.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] mode       as it was acquired
--
-- Returns {"released"}    the permits are given back
--         {"expired"}     there were none: the hold had expired
--         {"taken"}       another client holds the name alone; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence, usage
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, mode = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local weight = string.match(mode, '^w(%d+)')

--#plain
-- The head: no waiter, the hold has not expired, and the holds are as many as `usage` says; the key lives no longer than its
-- longest hold. Of grant_give_back (lua/grant.lua) only holds_remove has an effect then; holds_close follows (lua/holds.lua).
if redis.call('EXISTS', queue) == 0 then
  local member = token .. weight
  local now_us = time[1] * 1000000 + time[2]
  local ends = redis.pcall('ZSCORE', lock, member)
  if type(ends) == 'string' and tonumber(ends) >= now_us then
    local sum = redis.pcall('HGET', usage, 'sum')
    local used, counted = string.match(type(sum) == 'string' and sum or '', '^(%d+) (%d+)$')
    local count = redis.call('ZCARD', lock)
    if tonumber(counted) == count and tonumber(used) >= tonumber(weight) then
      redis.call('ZREM', lock, member)
      redis.call('HDEL', usage, member)
      redis.call('HSET', usage, 'sum', string.format('%d %d', used - weight, count - 1))
      local longest = count > 1 and redis.call('ZREVRANGE', lock, '0', '0', 'WITHSCORES')[2]
      if longest then
        local left_ms = math.ceil((longest - now_us) / 1000) + 1
        redis.call('PEXPIRE', lock, left_ms > 1 and left_ms or 1)
      end
      return { 'released' }
    end
  end
end
--#end

--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local kind = 'w' .. weight
local h = holds_read(lock, fence, clock_of(time), usage)
if not holds_has(h, kind, token) then return { h.exclusive and 'taken' or 'expired' } end
grant_give_back(h, queue, waiters, kind, token)
holds_close(h)
return { 'released' }
