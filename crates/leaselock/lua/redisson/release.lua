-- redisson/release: release a lock in Redisson's form and wake its waiters.
-- On servers only.
--
-- KEYS[1] lock       hash; '<client>:<thread>' to how often that thread holds
-- ARGV[1] holder     the caller's proof of ownership
-- ARGV[2] channel    the channel of Redisson's waiters
--
-- Returns {"released"}    it is free
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock
local lock = KEYS[1]
local holder, channel = ARGV[1], ARGV[2]

if redis.call('EXISTS', lock) == 0 then return { 'expired' } end
if redis.call('HEXISTS', lock, holder) == 0 then return { 'taken' } end
redis.call('DEL', lock)
redis.pcall('PUBLISH', channel, '0') -- its message for "unlocked"; without the right to publish it is still released
redis.pcall('SPUBLISH', channel, '0') -- where its waiters on a cluster of 7.0 or later listen
return { 'released' }
