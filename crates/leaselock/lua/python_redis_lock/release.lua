-- python_redis_lock/release: release a lock of python-redis-lock and wake one of its waiters.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] signal     list; one element is one wake-up, for the first waiter that takes it
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    it is free, and one waiter is woken
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, signal
local lock, signal = KEYS[1], KEYS[2]
local token = ARGV[1]

local held = redis.call('GET', lock)
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
redis.call('DEL', signal, lock)
-- One second, as in python-redis-lock: an element that no waiter takes expires before it could wake one in vain.
if type(redis.pcall('LPUSH', signal, 1)) == 'number' then redis.call('PEXPIRE', signal, 1000) end
return { 'released' }
