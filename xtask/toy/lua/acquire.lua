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
--#include prelude fence queue member holds grant
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3]

local request = { token = token, ttl_ms = ttl_ms, kind = '1', wait = wait }
return grant_acquire(holds_read(lock, fence, clock_us()), queue, waiters, request)
