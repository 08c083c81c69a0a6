-- redisson/break: delete a lock in Redisson's form as an operator, from any holder, and wake its waiters.
-- On servers only.
--
-- KEYS[1] lock       hash; '<client>:<thread>' to how often that thread holds
-- ARGV[1] channel    the channel of Redisson's waiters
-- ARGV[2] may        '1' deletes it, '0' changes nothing
--
-- Returns {"broken"}      it is free
--         {"free"}        there was no lock
--         {"foreign"}     there is one; nothing was changed
-- Replay  it deletes the lock of that moment
-- Writes  lock
local lock = KEYS[1]
local channel, may = ARGV[1], ARGV[2]

if redis.call('EXISTS', lock) == 0 then return { 'free' } end
redis.call('HEXISTS', lock, '') -- which the server refuses for another type
if may ~= '1' then return { 'foreign' } end
redis.call('DEL', lock)
redis.pcall('PUBLISH', channel, '0') -- as its release does (lua/redisson/release.lua)
redis.pcall('SPUBLISH', channel, '0')
return { 'broken' }
