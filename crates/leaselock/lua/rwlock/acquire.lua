-- rwlock/acquire: read under a read-write lock if no client writes and no waiter is ahead; otherwise, if willing, join
-- the queue. To write is to acquire the mutex of the same name.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints a fencing token
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy; 'priority passed_ms kind channel' does (lua/mutex/acquire.lua)
-- ARGV[4] mode       's' reads; 'u' reads and may become exclusive
-- ARGV[5] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[6] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}       held under `token` until ttl_ms from time_us; fence is that of
--                                                          all who read now, '0' when the token asks for none; range '1';
--                                                          others '1' when a waiter is left in the queue
--         {"waiting", rest_ms, holder, time_us, position}  in the queue at `position` (1 is next); in rest_ms it would be
--                                                          granted if no holder renewed; the client of one holder
--         {"busy", rest_ms, holder, time_us}               a client writes, or a waiter is ahead, and the caller is not
--                                                          in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue         as in mutex/acquire
-- Replay  a token that holds gets {"granted", same fence} with its ttl renewed; a waiting token keeps its position
-- Writes  lock, queue, waiters, fence, gate
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[5], ARGV[6]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local time = redis.call('TIME')

--#plain
-- The head: no waiter, and no hold or those of readers with a fencing token, which a reader that wants one shares. Of
-- grant_acquire (lua/grant.lua) these are grant_mint and grant_write; of grant_again, for a token that reads, holds_put.
if mode == 's' and redis.call('EXISTS', queue) == 0 then
  local fenced, held = string.find(token, '.', 1, true), redis.pcall('ZRANGE', lock, '0', '0')
  local shared, mark = held[1] and string.match(held[1], '^f(%d+)$'), nil
  if fenced and not held.err and not held[1] then
--#inline mint
    if is_minted then
--#inline number
      shared, mark = number, 'f' .. number
    end
  end
  if shared then
--#inline now
    redis.call('ZADD', lock, string.format('%.0f', now + ttl_ms * 1000), token, unpack(mark and { '-inf', mark } or {}))
    if mark or redis.call('PTTL', lock) <= tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms + 1) end
    return { 'granted', fenced and shared or '0', '1', now, '0' }
  end
end
--#end

--#include prelude fence queue member holds grant
local request = { token = token, ttl_ms = ttl_ms, kind = mode, wait = wait }
return grant_acquire(holds_read(lock, fence, clock_of(time)), queue, waiters, request)
