-- rwlock/cancel: undo an acquire or a downgrade whose caller was dropped: leave the queue, and give back what the token
-- holds.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] mode       's' or 'u', as it was asked for; the token may hold in another way by now
--
-- Returns {"left", time_us}        was in the queue and has left it; waiters that it kept waiting are granted
--         {"released", time_us}    held, and has given it back
--         {"absent", time_us}      neither held nor waited; nothing was changed
-- Replay  "absent": the first call did the work
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[5]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, mode = ARGV[1], ARGV[2]

local h = holds_read(lock, fence, clock_us())
--#inline broken
return grant_cancel(h, queue, waiters, holds_how(h, token) or holds_how(h, broken) or mode, token)
