-- mutex/release: release the mutex as its holder; the next waiter gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    free, or already the next waiter's
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token = ARGV[1]

local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
--#plain
-- The head: no waiter. Of grant_give_back (lua/grant.lua) only holds_remove has an effect then.
if held == token and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lock)
  return { 'released' }
end
--#end
if not held then return { 'expired' } end
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held ~= token then return { 'taken' } end

local is_open, time = true, redis.call('TIME')
--#strict
--#include gate
local gate = KEYS[5]
is_open = gate_is_open(gate)
--#end
local is_done, out
--#plain
--#include handover
if is_open then is_done, out = handover_plain(lock, queue, waiters, fence, time) end
if is_done then return { 'released' } end
--#end

--#include prelude fence queue member holds grant
--#strict
--#include gate_queue
gate_hide_waiters(gate)
--#end
if out then queue_add(queue, waiters, out, queue_score(queue_entry(out).priority)) end
grant_give_back(holds_read(lock, fence, clock_of(time)), queue, waiters, '1', held)
return { 'released' }
