-- mutex/break: break the lease as an operator, of all holders where several hold; the next waiters are granted in the
-- same step.
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
--#include prelude fence queue holds grant
--#strict
-- A hand-over is a grant, so behind a closed gate there is none.
--#include gate
local gate = KEYS[5]

if not gate_is_open(gate) then
  queue_visit = function() return {} end
end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local only, foreign = ARGV[1], ARGV[2] == '1'

local now_us = clock_us()
local h = holds_read(lock, fence, now_us)
if h.strange then return redis.call('GET', h.lock) end -- which the server refuses
if not h.exclusive and h.count == 0 then return { 'free', whole(now_us) } end
local holder, first_fence, last_fence = holds_holder(h), 0, 0
if h.exclusive then
  first_fence, last_fence = fence_of(h.exclusive, fence)
elseif not h.weighted then
  first_fence, last_fence = fence_read(fence)
end
local its_fence, only_fence = whole(first_fence or 0), tonumber(only) or first_fence
if holder == '' and not foreign then return { 'foreign', whole(now_us) } end
if only_fence and (only_fence < first_fence or only_fence > last_fence) then return { 'changed', its_fence, whole(now_us) } end
grant_give_back(h, queue, waiters, '1', '', 0)
return { 'broken', holder, its_fence, whole(now_us) }
