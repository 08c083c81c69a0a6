-- mutex/detach: give a lease a new proof of ownership, with which another process continues.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] successor  the token that holds from now on
-- ARGV[3] ttl_ms     integer > 0; the lease is extended to it, never shortened
--
-- Returns {"passed", pttl_ms, time_us}     `successor` holds for pttl_ms from time_us
--         {"expired", time_us}             there is no lock: the lease expired or was deleted
--         {"taken", time_us}               another client holds it
-- Replay  "passed" again, with its ttl renewed
-- Writes  lock
--#include prelude
local lock = KEYS[1]
local token, successor, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now_us = clock_us()
local held, is_set = of_type(redis.pcall('GET', lock)) -- of readers or permits (lua/holds.lua)
if is_set then return { 'taken', whole(now_us) } end
if not held then return { 'expired', whole(now_us) } end
if held ~= token and held ~= successor then return { 'taken', whole(now_us) } end
local pttl_ms = math.max(redis.call('PTTL', lock), ttl_ms)
redis.call('SET', lock, successor, 'PX', pttl_ms)
return { 'passed', pttl_ms, whole(now_us) }
