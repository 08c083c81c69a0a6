-- hold/confirm: extend a read or permits by a write in any case, so that a wait for replicas on the same connection covers
-- this write and all before it.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
-- ARGV[3] mode       's', 'u', or 'w' and how many permits; text behind a space is not for this script
--
-- Returns {"confirmed", time_us}   held for at least ttl_ms from time_us, and written
--         {"expired", time_us}     the hold has expired, also when it is still in the set
--         {"taken", time_us}       another client holds the name alone
-- Replay  harmless: the same answer as long as the token holds
-- Writes  lock
--#include prelude member
local lock = KEYS[1]
local token, ttl_ms, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local now_us = clock_us()
local hold = member_of(mode, token)
local ends, other = of_type(redis.pcall('ZSCORE', lock, hold))
if other then return { 'taken', whole(now_us) } end
ends = tonumber(ends or '-1')
if ends < now_us then return { 'expired', whole(now_us) } end
member_extend(lock, hold, math.max(ends, now_us + ttl_ms * 1000), ttl_ms)
return { 'confirmed', whole(now_us) }
