-- mutex/acquire: acquire the mutex if it is free and no waiter is ahead; otherwise, if willing, join the queue.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints fencing tokens
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy. 'priority passed_ms kind channel' does: larger priorities go
--                    first; passed_ms > 0 is the lease when handed over later, short until it is renewed; kind is digits
--                    here, a range > 0: how many fencing tokens a later grant reserves; channel is where the caller
--                    receives its grant, empty when it cannot
-- ARGV[4] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[5] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"fenced", id}                                   granted at once with an empty queue: held under `token` for
--                                                          ttl_ms; the id of the fence is its fencing token
--         {"unfenced"}                                     the same without a fencing token
--         {"granted", fence, range, time_us, others}       granted in any other case; fence '0' when the token asks
--                                                          for none, otherwise the first of `range`; others '1' when
--                                                          a waiter is left in the queue
--         {"waiting", pttl_ms, holder, time_us, position}  in the queue at `position` (1 is next); the holder's remaining
--                                                          time (-1: none is set) and its client ('' when foreign).
--                                                          1 and '': it is free, and reserved for another waiter
--         {"busy", pttl_ms, holder, time_us}               held by another client, or reserved for a waiter, and the
--                                                          caller is not in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long, 0 when it has
--                                                          just ended; why: 'missing', there was no gate; 'moved', it
--                                                          was another server's. This call holds nothing
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence, with its key            no grant of ours wrote this value, and the token wants a
--                                                          fencing token; or DAMAGED queue: the queue or the waiters
--                                                          are of another type. Nothing is granted or renewed
-- Replay  a token that holds gets {"granted", fence} with its ttl renewed: the same one, of a range its last. A waiting
--         token keeps its position and is marked as alive. Nothing is granted or queued twice.
-- Writes  lock, queue, waiters, fence, gate
--#strict
-- Behind a closed gate nothing is granted and no caller joins the queue. Nor does a token that holds learn so: its
-- lease may have expired, by another clock, before it ever learned of it.
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[4], ARGV[5]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3]

--#plain
-- The head: nothing lies there, but perhaps the fence (lua/fence.lua). Of grant_acquire (lua/grant.lua) only the last lines
-- have an effect then: grant_mint and grant_write. A number that is refused has written nothing, and they say why.
if redis.call('EXISTS', lock, queue) == 0 then
  if not string.find(token, '.', 1, true) then
    redis.call('SET', lock, token, 'PX', ttl_ms)
    return { 'unfenced' }
  end
--#inline mint
  if is_minted then
    redis.call('SET', lock, token, 'PX', ttl_ms)
    return { 'fenced', id }
  end
end
--#end

local time = redis.call('TIME')

--#plain
-- The plain wait: held by another, and new in the queue, behind all others of the one usual priority. Of grant_acquire
-- these are queue_join (lua/queue.lua) and the answer 'waiting'.
local held = string.sub(wait, 1, 2) == '0 ' and redis.pcall('GET', lock)
if type(held) == 'string' and held ~= token then
  local PRIORITY_START, PRIORITY_END, SAME_10_S, QUEUE_KEPT_MS = 64, 66, 9, '60000' -- (lua/queue.lua)
--#inline now
  local ranged = redis.pcall('ZRANGE', queue, '-1', '-1')
  local last = ranged[1]
  local is_plain = not ranged.err and (not last or last < now and string.sub(last, -1) ~= '~'
    and string.sub(last, PRIORITY_START, PRIORITY_END) == ' 0 ')
  local member = now .. token .. now .. ' ' .. wait
  if is_plain and redis.pcall('HSETNX', waiters, token, member) == 1 then
    redis.call('ZADD', queue, '0', member)
    local position = last and redis.call('HLEN', waiters) or 1
    if position == 1 or string.sub(last, 1, SAME_10_S) ~= string.sub(now, 1, SAME_10_S) then
      redis.call('PEXPIRE', queue, QUEUE_KEPT_MS)
      redis.call('PEXPIRE', waiters, QUEUE_KEPT_MS)
      position = last and redis.call('ZCARD', queue) or 1
    end
--#inline holder
    return { 'waiting', redis.call('PTTL', lock), holder, now, position }
  end
end
--#end

--#include prelude fence queue member holds grant
local range = string.match(wait, '^%-?%d+ %d+ (%d+) ') or '1'
local request = { token = token, ttl_ms = ttl_ms, kind = range, wait = wait }
return grant_acquire(holds_read(lock, fence, clock_of(time)), queue, waiters, request)
