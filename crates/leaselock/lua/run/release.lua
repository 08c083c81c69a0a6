-- run/release: give the name back before its run has ended, of work that runs once or of a tick: the run counts as crashed.
-- The next waiter gets the name in the same step.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record     hash; what became of runs (lua/once.lua, lua/cron.lua). channel: where changes of it are broadcast
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    free, or already the next waiter's
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue member holds grant broadcast
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

local h = holds_read(lock, fence, clock_us())
local channel = redis.pcall('HGET', record, 'channel') -- another type under the key does not keep the name held
if h.exclusive ~= token then return { (h.exclusive or h.count > 0) and 'taken' or 'expired' } end
grant_give_back(h, queue, waiters, '1', token)
if type(channel) == 'string' then broadcast(channel) end
return { 'released' }
