-- mutex/confirm: extend a lease by a write in any case, so that a wait for replicas on the same connection covers this
-- write and all before it.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"confirmed", time_us}   held for at least ttl_ms from time_us, and written
--         {"expired", time_us}     there is no lock: the lease expired or was deleted
--         {"taken", time_us}       another client holds it
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
redis.call('PEXPIRE', lock, pttl_ms < ttl_ms and ttl_ms or pttl_ms)
return { 'confirmed', whole(now_us) }
