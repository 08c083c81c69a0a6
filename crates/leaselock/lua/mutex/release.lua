-- mutex/release: release the mutex as its holder; the next waiter gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] used       the highest fencing token in use, of those that were reserved; left out when all count as used
--
-- Returns {"released"}    free, or already the next waiter's
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence
--#strict
-- A hand-over is a grant, so behind a closed gate the lock is only deleted.
--#include gate
local lock, queue, token, gate = KEYS[1], KEYS[2], ARGV[1], KEYS[5]

if redis.call('EXISTS', queue) ~= 0 and not gate_is_open(gate) then
  local held = redis.pcall('GET', lock)
  if not held then return { 'expired' } end
  if held ~= token then return { 'taken' } end
  redis.call('DEL', lock)
  return { 'released' }
end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, used = ARGV[1], ARGV[2]

local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
if not held then return { 'expired' } end
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held ~= token then return { 'taken' } end

-- The plain case: no waiter, and no reserved number. Without reserved numbers EXISTS on the queue is cheaper.
if not used and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lock)
  return { 'released' }
end
local ahead = redis.pcall('ZRANGE', queue, '0', '1') -- an error for another type has no first
local first = ahead[1]
if used and not first and redis.pcall('GET', fence) == used .. ':' .. used then
  redis.call('DEL', lock)
  return { 'released' }
end

-- Here the fragments cost a release without waiters nothing.
--#include handover
local time = redis.call('TIME')
local is_done, out = handover_plain(lock, queue, waiters, fence, ahead, time, used)
if is_done then return { 'released' } end

--#include prelude fence queue member holds grant
if out then queue_add(queue, waiters, out, queue_score(queue_entry(out).priority)) end
grant_give_back(holds_read(lock, fence, clock_of(time)), queue, waiters, '1', token, tonumber(used) or 0)
return { 'released' }
