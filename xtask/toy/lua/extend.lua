-- toy/extend: extend a lease. Never creates a lease, never shortens one.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"extended", pttl_ms, time_us}   held for at least ttl_ms from time_us
--         {"expired", time_us}             there is no lock
--         {"broken", time_us}              an operator broke it: it ends as it would have, or by its holder's release
--         {"taken", time_us}               another client holds it
-- Replay  harmless: the same answer as long as the token holds
-- Writes  lock
--#include prelude
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now = whole(clock_us())
local held = redis.call('GET', lock)
if held ~= token then
--#inline broken
  return { held == broken and 'broken' or held and 'taken' or 'expired', now }
end
local pttl_ms = math.max(redis.call('PTTL', lock), ttl_ms)
redis.call('PEXPIRE', lock, pttl_ms)
return { 'extended', pttl_ms, now }
