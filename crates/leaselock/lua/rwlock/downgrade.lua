-- rwlock/downgrade: go on as a reader, without a gap, after holding the name alone or as an upgradable reader; the readers
-- at the head of the queue are granted in the same step.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0; the read's lease
-- ARGV[3] wait       '': a downgrade never waits
-- ARGV[4] mode       's' reads; 'u' reads and may become exclusive again; then a space and the last number of the exclusive
--                    grant, when it has one: a call that comes late must not take a later upgrade down
-- ARGV[5] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[6] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}  reads under `token` until ttl_ms from time_us at least; fence is that
--                                                     of all who read now, range '1'; others '1' when a waiter is left
--         {"expired", time_us}                        the token holds nothing that may become such a read
--         {"taken", time_us}                          the same, and another client holds the name alone
--         {"quarantined", left_ms, why, time_us}      strict mode: nothing is granted for so long; it holds as before
--         {"disagrees", longest_ms, time_us}          strict mode: the gate is for leases of another length
--         the error DAMAGED fence                     as in mutex/acquire; it holds as before
-- Replay  {"granted", same fence} with its ttl renewed
-- Writes  lock, queue, waiters, fence, gate
--#include prelude fence queue member holds grant
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[5], ARGV[6]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, number = string.match(ARGV[4], '^(%a) ?(%d*)$')

local h = holds_read(lock, fence, clock_us())
local how = holds_how(h, token)
if not how or how == 's' and mode == 'u' then return { h.exclusive and 'taken' or 'expired', whole(h.now_us) } end
if how == '1' and number ~= '' and tonumber(fence_last(fence) or '0') > tonumber(number) then
  return { 'expired', whole(h.now_us) }
end
if how == mode then
  local request = { token = token, ttl_ms = ttl_ms, kind = mode, wait = wait }
  return grant_again(h, queue, request, holds_has(h, mode, token))
end

-- First what memory pressure does not refuse: then it refuses nothing that follows.
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), 1))
local reading = { token = token, kind = mode }
reading.minted, reading.range = grant_mint(h, mode, token)
if not reading.minted then return h.refusal end
local left_ms = how == '1' and redis.call('PTTL', lock) or holds_until(h, holds_has(h, how, token))
reading.passed_ms = math.max(ttl_ms, left_ms)
local shared = h.shared
if how == '1' then holds_remove(h, how, token) end
h.shared = shared
holds_reserve(h, mode, token)
grant_write(h, reading)
if how ~= '1' then holds_remove(h, how, token) end -- behind the other, so that the set is never empty
local member = queue_known(waiters, token) -- of an upgrade that was given up
if member then queue_drop(queue, waiters, { member = member, token = token }) end
grant_serve(h, queue, waiters, '')
return grant_answer(h, queue, reading)
