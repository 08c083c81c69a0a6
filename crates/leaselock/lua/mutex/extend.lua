-- mutex/extend: extend a lease. Never creates a lease, never shortens one.
--
-- KEYS[1] lock       string; the holder's token; the only key touched, so it works while slots move
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"extended", pttl_ms, time_us}   held for at least ttl_ms from time_us
--         {"expired", time_us}             there is no lock: the lease expired or was deleted
--         {"taken", time_us}               another client holds it
-- Replay  harmless: the same answer as long as the token holds
-- Writes  lock
--#include prelude
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now_us = clock_us()
local held, is_set = of_type(redis.pcall('GET', lock)) -- of readers or permits (lua/holds.lua)
if is_set then return { 'taken', whole(now_us) } end
if not held then return { 'expired', whole(now_us) } end
if held ~= token then return { 'taken', whole(now_us) } end
local pttl_ms = redis.call('PTTL', lock)
if pttl_ms < ttl_ms then -- -1 too: a lease always expires
  redis.call('PEXPIRE', lock, ttl_ms)
  pttl_ms = ttl_ms
end
return { 'extended', pttl_ms, whole(now_us) }
