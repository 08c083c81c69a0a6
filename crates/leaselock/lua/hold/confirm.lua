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
--#include prelude
local lock = KEYS[1]
local token, ttl_ms, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local now_us = clock_us()
local kind, digits = string.match(mode, '^(%a)(%d*)')
local hold = token .. (kind == 'u' and 'u' or digits)
local ends, other = of_type(redis.pcall('ZSCORE', lock, hold))
if other then return { 'taken', whole(now_us) } end
ends = tonumber(ends or '-1')
if ends < now_us then return { 'expired', whole(now_us) } end
-- First what memory pressure does not refuse: then it refuses nothing that follows.
local until_us = whole(math.max(ends, now_us + ttl_ms * 1000))
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl_ms + 1))
redis.call('ZADD', lock, 'XX', until_us, hold)
if kind == 'u' then redis.call('ZADD', lock, 'XX', until_us, 'u') end
return { 'confirmed', whole(now_us) }
