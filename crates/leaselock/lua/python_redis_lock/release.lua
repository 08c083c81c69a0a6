-- python_redis_lock/release: give back a lock of python-redis-lock and wake one of those who wait for it there.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] signal     list; one element is one wake-up, for whoever takes it first
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    nobody holds it, and one waiter is woken
--         {"expired"}     nothing was there: the lease had run out or was deleted
--         {"taken"}       another holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, signal
local lock, signal = KEYS[1], KEYS[2]
local token = ARGV[1]

local held = redis.call('GET', lock)
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
redis.call('DEL', signal, lock)
-- One second, as there: a signal that nobody takes is gone before it could wake somebody for nothing.
if type(redis.pcall('LPUSH', signal, 1)) == 'number' then redis.call('PEXPIRE', signal, 1000) end
return { 'released' }
