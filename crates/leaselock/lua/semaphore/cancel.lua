-- semaphore/cancel: undo an acquire whose caller was dropped: leave the queue, and give back what was granted.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] mode       as it was asked for
--
-- Returns {"left", time_us}        was in the queue and has left it; waiters that it kept waiting are granted
--         {"released", time_us}    held permits, and has given them back
--         {"absent", time_us}      neither held nor waited; nothing was changed
-- Replay  "absent": the first call did the work
-- Writes  lock, queue, waiters, fence, usage
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, mode = ARGV[1], ARGV[2]

local h = holds_read(lock, fence, clock_us(), usage)
local answer = grant_cancel(h, queue, waiters, string.match(mode, '^w%d+'), token)
if answer[1] ~= 'absent' then holds_close(h) end
return answer
