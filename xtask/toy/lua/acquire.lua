-- toy/acquire: take the toy if it is free and no waiter is ahead; otherwise, if willing, join the queue.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant, kept 7 days (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy; 'priority passed_ms kind channel' does (lua/queue.lua)
-- ARGV[4] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[5] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}       held under `token` until ttl_ms from time_us; range is '1';
--                                                          others '1' when a waiter is left in the queue
--         {"waiting", pttl_ms, holder, time_us, position}  in the queue at `position` (1 is next)
--         {"busy", pttl_ms, holder, time_us}               held by another client, and the caller is not in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence, with its key            no grant of ours wrote this value; nothing is granted
-- Replay  a token that holds gets {"granted", same fence} with its ttl renewed; a waiting token keeps its position
-- Writes  lock, queue, waiters, fence, gate
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[4], ARGV[5]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
--#include prelude fence queue toy/grant
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3]

local now_us = clock_us()
local now, waits, held = whole(now_us), wait ~= '', redis.call('GET', lock)
local first_fence, last_fence = fence_read(fence)
if not last_fence then return fence_damaged(fence) end
local length = redis.call('ZCARD', queue)
if held == token then
  if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
  return { 'granted', is_fenced(token) and whole(first_fence) or '0', '1', now, length > 0 and '1' or '0' }
end

local member = queue_known(waiters, token)
if waits and (held or length > 0) then member = queue_join(queue, waiters, token, member, wait, now_us) end
local entry = not held and length > 0 and toy_next(queue, waiters, now_us, token)
if entry and entry.token ~= token then
  toy_hand_over(lock, queue, waiters, fence, entry, now_us)
  held = entry.token
end
if held then
  local pttl_ms, holder = redis.call('PTTL', lock), client_of(held)
  if not waits then return { 'busy', pttl_ms, holder, now } end
  return { 'waiting', pttl_ms, holder, now, redis.call('ZRANK', queue, member) + 1 }
end

redis.call('SET', lock, token, 'PX', ttl_ms)
if member then queue_drop(queue, waiters, { member = member, token = token }) end
local minted = is_fenced(token) and fence_mint(fence, last_fence, now_us, 1) or '0'
return { 'granted', minted, '1', now, redis.call('ZCARD', queue) > 0 and '1' or '0' }
