-- mutex/break: break the lease as an operator; the next waiter gets the mutex in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] only       a fencing token that must be one of the holder's; '' for any
-- ARGV[2] foreign    '1' breaks a lock of another library too, '0' does not
--
-- Returns {"broken", holder, fence, time_us}   the client that held it ('' when foreign); fence: the first of its
--                                      numbers, '0': it had none
--         {"free", time_us}                    no client held it
--         {"foreign", time_us}                 another library holds it; nothing was changed
--         {"changed", fence, time_us}          the holder now has other fencing tokens ('0': none); nothing was changed
-- Replay  breaks the holder of that moment: name the fencing token to break one grant only
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue mutex/grant
--#strict
-- A hand-over is a grant, so behind a closed gate there is none.
--#include gate
local gate = KEYS[5]

if not gate_is_open(gate) then
  queue_pick = function() return nil, {} end
end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local only, foreign = ARGV[1], ARGV[2] == '1'

local now_us = clock_us()
local held = redis.call('GET', lock)
if not held then return { 'free', whole(now_us) } end
local holder = client_of(held)
local first_fence, last_fence = fence_of(held, fence)
local its_fence, only_fence = whole(first_fence), tonumber(only) or first_fence
if holder == '' and not foreign then return { 'foreign', whole(now_us) } end
if only_fence < first_fence or only_fence > last_fence then return { 'changed', its_fence, whole(now_us) } end
grant_pass_on(lock, queue, waiters, fence, 0, now_us)
return { 'broken', holder, its_fence, whole(now_us) }
