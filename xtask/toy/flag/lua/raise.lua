-- flag/raise: raise the flag, and tell all that wait for it.
--
-- KEYS[1] flag       string; it is there while the flag is up
-- ARGV[1] kept_ms    integer > 0; for how long it is up
-- ARGV[2] channel    where those who wait listen
--
-- Returns {"raised"}    it is up
-- Replay  the same answer
-- Writes  flag
--#include broadcast
local flag = KEYS[1]
local kept_ms, channel = ARGV[1], ARGV[2]

redis.call('SET', flag, '1', 'PX', kept_ms)
broadcast(channel)
return { 'raised' }
