-- redisson/extend: extend a lease in Redisson's form. Never creates a lease, never shortens one.
-- On servers only.
--
-- KEYS[1] lock       hash; '<client>:<thread>' to how often that thread holds
-- ARGV[1] holder     the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"extended", pttl_ms, time_us}   held for at least ttl_ms from time_us
--         {"expired", time_us}             there is no lock: the lease expired or was deleted
--         {"taken", time_us}               another client holds it
-- Replay  harmless: the same answer as long as the holder holds
-- Writes  lock
--#include prelude
local lock = KEYS[1]
local holder, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now_us = clock_us()
if redis.call('EXISTS', lock) == 0 then return { 'expired', whole(now_us) } end
if redis.call('HEXISTS', lock, holder) == 0 then return { 'taken', whole(now_us) } end
local pttl_ms = redis.call('PTTL', lock)
if pttl_ms < ttl_ms then -- -1 too: a lease always expires
  redis.call('PEXPIRE', lock, ttl_ms)
  pttl_ms = ttl_ms
end
return { 'extended', pttl_ms, whole(now_us) }
