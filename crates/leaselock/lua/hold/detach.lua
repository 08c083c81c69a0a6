-- hold/detach: give a read or permits a new proof of ownership, with which another process continues.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] usage      hash; for permits only: the fencing token of each hold (lua/holds.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] successor  the token that holds from now on
-- ARGV[3] ttl_ms     integer > 0; the lease is extended to it, never shortened
-- ARGV[4] mode       's', 'u', or 'w' and how many permits; text behind a space is not for this script
--
-- Returns {"passed", ttl_ms, time_us}   `successor` holds for at least ttl_ms from time_us
--         {"expired", time_us}          the hold has expired, also when it is still in the set
--         {"taken", time_us}            another client holds the name alone
-- Replay  "passed" again, with its ttl renewed
-- Writes  lock, usage
--#include prelude member
local lock, usage = KEYS[1], KEYS[2]
local token, successor, ttl_ms, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local now_us = clock_us()
local hold, next_hold = member_of(mode, token), member_of(mode, successor)
local ends, other = of_type(redis.pcall('ZSCORE', lock, hold))
if other then return { 'taken', whole(now_us) } end
ends = tonumber(ends or redis.call('ZSCORE', lock, next_hold) or '-1')
if ends < now_us then return { 'expired', whole(now_us) } end
local fence = usage and redis.call('HGET', usage, hold) -- before all writes: the server refuses another type

-- First what memory pressure does not refuse: then it refuses nothing that follows. The key would go with its last hold.
local until_us = whole(math.max(ends, now_us + ttl_ms * 1000))
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl_ms + 1))
redis.call('ZADD', lock, until_us, next_hold)
redis.call('ZREM', lock, hold)
if member_mark(hold) then redis.call('ZADD', lock, until_us, 'u') end
if fence then
  redis.call('HSET', usage, next_hold, fence)
  redis.call('HDEL', usage, hold)
end
return { 'passed', ttl_ms, whole(now_us) }
