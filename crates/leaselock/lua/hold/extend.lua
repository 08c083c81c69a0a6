-- hold/extend: extend a read or permits. Never creates a hold, never shortens one.
--
-- KEYS[1] lock       what is held (lua/holds.lua); the only key touched, so it works while slots move
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
-- ARGV[3] mode       's', 'u', or 'w' and how many permits; text behind a space is not for this script
--
-- Returns {"extended", ttl_ms, time_us}    held for at least ttl_ms from time_us
--         {"expired", time_us}             the hold has expired, also when it is still in the set
--         {"broken", time_us}              an operator broke it: it ends as it would have, or by its holder's release
--         {"taken", time_us}               another client holds the name alone
-- Replay  harmless: the same answer as long as the token holds
-- Writes  lock
--#include prelude member
local lock = KEYS[1]
local token, ttl_ms, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local now_us = clock_us()
local hold = member_of(mode, token)
local ends, other = of_type(redis.pcall('ZSCORE', lock, hold))
--#inline broken
if other then
  -- An upgrade of this read may have been granted before its reader knows.
  local held = mode == 'u' and redis.pcall('GET', lock)
  if held ~= token then return { held == broken and 'broken' or 'taken', whole(now_us) } end
  if redis.call('PTTL', lock) < ttl_ms then redis.call('PEXPIRE', lock, ttl_ms) end
  return { 'extended', ttl_ms, whole(now_us) }
end
ends = tonumber(ends or '-1')
if ends < now_us then
  return { redis.call('ZSCORE', lock, member_of(mode, broken)) and 'broken' or 'expired', whole(now_us) }
end
local until_us = now_us + ttl_ms * 1000
if ends < until_us then member_extend(lock, hold, until_us, ttl_ms) end
return { 'extended', ttl_ms, whole(now_us) }
