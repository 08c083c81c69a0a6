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

--#plain
-- The head: no waiter, and the hold has not expired; the key lives no longer than its longest hold. Of grant_give_back
-- (lua/grant.lua) only holds_remove has an effect then.
if mode == 's' and redis.call('EXISTS', queue) == 0 then
  local longest = redis.pcall('ZREVRANGE', lock, '0', '1', 'WITHSCORES')
  local is_last = longest[1] == token and (not longest[4] or longest[4] == '-inf') -- or a fencing token is beside it
  local ends = is_last and longest[2] or redis.pcall('ZSCORE', lock, token)
  local now_us = time[1] * 1000000 + time[2]
  if type(ends) == 'string' and tonumber(ends) >= now_us then
    if is_last then
      redis.call('DEL', lock)
      return { 'released' }
    end
    redis.call('ZREM', lock, token)
    local left_us = longest[longest[1] == token and 4 or 2] - now_us
    redis.call('PEXPIRE', lock, math.max(1, math.ceil(left_us / 1000) + 1))
    return { 'released' }
  end
end
--#end

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
