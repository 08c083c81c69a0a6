-- setnx_pexpire/release: delete a lock if it is the caller's own, and wake no waiter.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    it is free
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock
local lock = KEYS[1]
local token = ARGV[1]

local held = redis.call('GET', lock)
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
redis.call('DEL', lock)
return { 'released' }
