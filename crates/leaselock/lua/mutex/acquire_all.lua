-- mutex/acquire_all: acquire several mutexes in one step: all of them, if each is free with an empty queue, or none.
--
-- KEYS[…] locks      the locks of n names, then their n queues, then their n fences; in strict mode the gate at the end
-- ARGV[1] token      the caller's proof of ownership, one for all names; it says whether a grant mints fencing tokens
-- ARGV[2] ttl_ms     integer > 0; the lease of each
-- ARGV[3] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[4] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", time_us, fences, …}          all are held until ttl_ms from time_us; the fencing token of each
--                                                  name in the order of the locks, '0' when the token asks for none
--         {"busy", pttl_ms, holder, time_us, at}   the lock with this number (1 is the first) is held: for so long (-1:
--                                                  none is set), by this client ('' when foreign)
--         {"separate", time_us}                    one has waiters, or is no string: use mutex/acquire for each name
--         {"quarantined", left_ms, why, time_us}   strict mode: as mutex/acquire says
--         {"disagrees", longest_ms, time_us}       strict mode: the gate is for leases of another length
--         the error DAMAGED fence, with its key    no grant of ours wrote this value, and the token wants a fencing
--                                                  token. None is acquired
-- Replay  "busy", held by the caller's own client: the first call holds them all
-- Writes  locks; their fences, and in strict mode the gate
--#strict
--#include gate
local longest_ms, quarantine_ms = ARGV[3], ARGV[4]

local refusal = gate_refusal(KEYS[#KEYS], longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
--#include prelude fence
local token, ttl_ms = ARGV[1], ARGV[2]

local count = math.floor(#KEYS / 3)
local now_us = clock_us()
local now = whole(now_us)

if redis.call('EXISTS', unpack(KEYS, 1, 2 * count)) > 0 then
  for i = 1, count do
    local held = redis.pcall('GET', KEYS[i]) -- an error for a set of readers or permits (lua/holds.lua)
    if type(held) == 'string' then
      return { 'busy', redis.call('PTTL', KEYS[i]), client_of(held), now, i }
    end
  end
  return { 'separate', now }
end

local fences = {}
for i = 1, count do
  local minted, refusal = '0', nil
  if is_fenced(token) then minted, refusal = fence_mint(KEYS[2 * count + i]) end
  if not minted then return refusal end
  fences[i] = minted
end
for i = 1, count do
  redis.call('SET', KEYS[i], token, 'PX', ttl_ms)
end
return { 'granted', now, unpack(fences) }
