-- redisson/take: take a lock in the form of Redisson's plain lock: a hash with one field, the holder, and its holds.
-- On servers only.
--
-- KEYS[1] lock       hash; '<client>:<thread>' to how often that thread holds
-- ARGV[1] holder     the caller's proof of ownership, in that form and never used before
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"taken"}               held for ttl_ms
--         {"busy", pttl_ms}       the key exists, for so long; -1: it never expires
-- Replay  a holder gets "taken" with its ttl renewed; it never holds twice
-- Writes  lock
local lock = KEYS[1]
local holder, ttl_ms = ARGV[1], ARGV[2]

if redis.call('EXISTS', lock) == 1 and redis.call('HEXISTS', lock, holder) == 0 then
  return { 'busy', redis.call('PTTL', lock) }
end
redis.call('HSET', lock, holder, 1)
redis.call('PEXPIRE', lock, ttl_ms)
return { 'taken' }
