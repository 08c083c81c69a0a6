-- toy/release: release the toy as its holder; the next waiter gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] used       not for the toy, which reserves no fencing tokens
--
-- Returns {"released"}    free, or already the next waiter's
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[5]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, used = ARGV[1], ARGV[2]

local h = holds_read(lock, fence, clock_us())
if h.exclusive ~= token then return { h.exclusive and 'taken' or 'expired' } end
grant_give_back(h, queue, waiters, '1', token, tonumber(used) or 0)
return { 'released' }
