-- all_or_none/extend: extend several locks, if all are the caller's. Never creates or shortens.
-- On servers only.
--
-- KEYS[…] locks      strings; the holder's value
-- ARGV[1] value      the caller's proof of ownership, and its note behind it
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"extended", ttl_ms, time_us}   all are held for at least ttl_ms from time_us
--         {"expired", time_us}            one is not there: it expired or was deleted; nothing was changed
--         {"taken", time_us}              another client holds one; nothing was changed
-- Replay  harmless: the same answer as long as the value holds
-- Writes  locks
--#include prelude
local value, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now_us = clock_us()
local gone = false
for _, lock in ipairs(KEYS) do
  local held = redis.call('GET', lock)
  if held and held ~= value then return { 'taken', whole(now_us) } end
  gone = gone or not held
end
if gone then return { 'expired', whole(now_us) } end
for _, lock in ipairs(KEYS) do
  -- -1 too: a lease always expires
  if redis.call('PTTL', lock) < ttl_ms then redis.call('PEXPIRE', lock, ttl_ms) end
end
return { 'extended', ttl_ms, whole(now_us) }
