-- mutex/extend: extend a lease. Never creates a lease, never shortens one.
--
-- KEYS[1] lock       string; the holder's token; the only key touched, so it works while slots move
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"extended", pttl_ms, time_us}   held for at least ttl_ms from time_us
--         {"expired", time_us}             there is no lock: the lease expired or was deleted
--         {"broken", time_us}              an operator broke it: it ends as it would have, or by its holder's release
--         {"taken", time_us}               another client holds it
-- Replay  harmless: the same answer as long as the token holds
-- Writes  lock
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
--#inline now
local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
if not held then return { 'expired', now } end
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held ~= token then
--#inline broken
  return { held == broken and 'broken' or 'taken', now }
end
local pttl_ms = redis.call('PTTL', lock)
if pttl_ms < ttl_ms then -- -1 too: a lease always expires
  redis.call('PEXPIRE', lock, ttl_ms)
  pttl_ms = ttl_ms
end
return { 'extended', pttl_ms, now }
