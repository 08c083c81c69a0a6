-- redisson/release: give back a lock in Redisson's form and wake those who wait for it there.
-- On servers only.
--
-- KEYS[1] lock       hash; '<client>:<thread>' to how often that thread holds
-- ARGV[1] holder     the caller's proof of ownership
-- ARGV[2] channel    where Redisson's waiters listen
--
-- Returns {"released"}    nobody holds it
--         {"expired"}     nothing was there: the lease had run out or was deleted
--         {"taken"}       another holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock
local lock = KEYS[1]
local holder, channel = ARGV[1], ARGV[2]

if redis.call('EXISTS', lock) == 0 then return { 'expired' } end
if redis.call('HEXISTS', lock, holder) == 0 then return { 'taken' } end
redis.call('DEL', lock)
redis.pcall('PUBLISH', channel, '0') -- its word for "unlocked"; whoever may not publish has still released
return { 'released' }
