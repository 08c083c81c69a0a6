-- barrier/leave: give up waiting, unless all have arrived.
--
-- KEYS[1] waiting    sorted set; who waits (lua/barrier.lua)
-- KEYS[2] passed     sorted set; who has passed
-- ARGV[1] token      the caller's own, for this wait
--
-- Returns {"passed", index}    too late: the caller has passed with the others
--         {"left"}             it does not count any more, or never did
-- Replay  the same answer
-- Writes  waiting
--#include barrier
local waiting, passed = KEYS[1], KEYS[2]
local token = ARGV[1]

local _, index = barrier_read(passed, token)
if index then return { 'passed', index } end
redis.call('ZREM', waiting, token)
return { 'left' }
