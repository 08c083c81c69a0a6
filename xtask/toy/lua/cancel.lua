-- toy/cancel: undo an acquire whose caller was dropped: leave the queue, and hand over if it was granted.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] used       not for the toy, which reserves no fencing tokens
--
-- Returns {"left", time_us}        was in the queue and has left it; a waiter that is the first now is woken
--         {"released", time_us}    held the lock, which is free or the next waiter's now
--         {"absent", time_us}      neither held nor waited; nothing was changed
-- Replay  "absent": the first call did the work
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue toy/grant
--#strict
--#include gate
local gate = KEYS[5]

if not gate_is_open(gate) then
  queue_pick = function() return nil, {} end
end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, used = ARGV[1], ARGV[2]

local now_us = clock_us()
local member = queue_known(waiters, token)
if member then queue_drop(queue, waiters, { member = member, token = token }) end
if redis.call('GET', lock) == token then
  toy_hand_over(lock, queue, waiters, fence, toy_next(queue, waiters, now_us, ''), now_us)
  return { 'released', whole(now_us) }
end
if member then queue_tell_first(queue) end
return { member and 'left' or 'absent', whole(now_us) }
