-- rwlock/release: stop reading; the waiters that fit then are granted in the same step.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] mode       's' or 'u', as it was acquired; an upgrade that the client does not know of is given back too
--
-- Returns {"released"}    the hold is given back
--         {"expired"}     there was none: it had expired
--         {"taken"}       another client writes; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, mode = ARGV[1], ARGV[2]

local time = redis.call('TIME')

-- The head: no waiter, and the hold has not expired. The key lives no longer than its longest hold.
if mode == 's' and redis.call('EXISTS', queue) == 0 then
  local ends = redis.pcall('ZSCORE', lock, token)
  local now_us = time[1] * 1000000 + time[2]
  if type(ends) == 'string' and tonumber(ends) >= now_us then
    redis.call('ZREM', lock, token)
    local longest = redis.call('ZREVRANGE', lock, '0', '0', 'WITHSCORES')[2]
    if longest == '-inf' then -- the fencing token of those who read is left
      redis.call('DEL', lock)
    elseif longest then
      local left_ms = math.ceil((longest - now_us) / 1000) + 1
      redis.call('PEXPIRE', lock, left_ms > 1 and left_ms or 1)
    end
    return { 'released' }
  end
end

--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[5]
gate_hide_waiters(gate)
--#end
local h = holds_read(lock, fence, clock_of(time))
local how = holds_how(h, token)
if not how then return { h.exclusive and 'taken' or 'expired' } end
grant_give_back(h, queue, waiters, how, token)
return { 'released' }
