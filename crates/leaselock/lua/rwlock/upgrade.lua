-- rwlock/upgrade: make an upgradable read exclusive when no other client reads; otherwise, if willing, wait for that in
-- front of every waiter. The read lasts until then.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the proof of ownership with which the caller reads
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call; it never ends before the read would have
-- ARGV[3] wait       '' does not join the queue when busy; 'priority passed_ms kind channel' does (lua/mutex/acquire.lua)
-- ARGV[4] mode       'x'
-- ARGV[5] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[6] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}       exclusive under `token` until ttl_ms from time_us at least; range
--                                                          is '1'; others '1' when a waiter is left in the queue
--         {"waiting", rest_ms, holder, time_us, position}  in the queue at `position` (1 is next); in rest_ms it would be
--                                                          granted if no other reader renewed; the client of one of them
--         {"busy", rest_ms, holder, time_us}               other clients read, and the caller is not in the queue
--         {"expired", time_us}                             the read is over; the caller is not in the queue
--         {"taken", time_us}                               the read is over, and another client holds the name alone
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue         as in mutex/acquire
-- Replay  an exclusive token gets {"granted", same fence} with its ttl renewed; a waiting token keeps its position
-- Writes  lock, queue, waiters, fence, gate
--#include prelude fence queue member holds grant
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[5], ARGV[6]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local h = holds_read(lock, fence, clock_us())
if h.exclusive == token then
  return grant_again(h, queue, { token = token, kind = '1', ttl_ms = ttl_ms }, true)
end
local _, other_queue = of_type(redis.pcall('ZCARD', queue))
local member, other_waiters = queue_known(waiters, token)
if other_queue or other_waiters then return queue_damaged(other_queue and queue or waiters) end
if not holds_has(h, 'u', token) then
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  if member and not h.exclusive then grant_serve(h, queue, waiters, '') end
  return { h.exclusive and 'taken' or 'expired', whole(h.now_us) }
end
if holds_fit(h, mode) then
  local upgrade = { token = token, kind = mode, passed_ms = ttl_ms }
  upgrade.minted, upgrade.range = grant_mint(h, mode, token)
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  if not upgrade.minted then return h.refusal end
  grant_write(h, upgrade)
  return grant_answer(h, queue, upgrade)
end
local rest_ms, holder = holds_rest_ms(h, mode, token), holds_holder(h, token)
if wait == '' then return { 'busy', rest_ms, holder, whole(h.now_us) } end
member = queue_join(queue, waiters, token, member, wait, h.now_us)
return { 'waiting', rest_ms, holder, whole(h.now_us), redis.call('ZRANK', queue, member) + 1 }
