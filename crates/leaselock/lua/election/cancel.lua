-- election/cancel: undo a campaign whose caller was dropped: leave the queue, and hand over if it was granted. Followers are
-- told as by a resignation.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] leader     string; who leads (lua/leader.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"left", time_us}        was in the queue and has left it; a waiter that is the first now is woken
--         {"released", time_us}    held the lock, which is free or the next campaigner's now
--         {"absent", time_us}      neither held nor waited; nothing was changed
-- Replay  "absent": the first call did the work
-- Writes  lock, queue, waiters, fence, leader
--#include prelude fence queue member holds grant broadcast leader
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, leader = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

local answer = grant_cancel(holds_read(lock, fence, clock_us()), queue, waiters, '1', token)
local _, channel = leader_read(leader)
if answer[1] == 'released' and channel and redis.call('EXISTS', lock) == 0 then
  redis.call('DEL', leader)
  broadcast(channel)
end
return answer
