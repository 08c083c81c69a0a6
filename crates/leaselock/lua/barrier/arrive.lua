-- barrier/arrive: wait here for the others, or go on waiting; the last one lets all pass in the same step.
--
-- KEYS[1] waiting    sorted set; who waits (lua/barrier.lua)
-- KEYS[2] passed     sorted set; who has passed
-- ARGV[1] token      the caller's own, for this wait
-- ARGV[2] parties    integer > 0; how many pass together
-- ARGV[3] lease_ms   integer > 0; for how long the caller counts without another call
-- ARGV[4] generation the one in which the caller waits: an old request counts in no later one
-- ARGV[5] kept_ms    integer > 0; how long the barrier is kept
-- ARGV[6] channel    where those who wait listen
--
-- Returns {"passed", generation, index}    all have arrived; index: from 0, one for each party of the generation
--         {"waiting", arrived}             so many have arrived
--         {"missed", generation}           this is the generation by now, and the caller has not passed
--         {"disagrees", parties}           those who wait say that so many pass together; nothing was changed
-- Replay  the same answer; no party counts twice
-- Writes  waiting, passed
--#include prelude broadcast barrier
local waiting, passed = KEYS[1], KEYS[2]
local token, parties, lease_ms, generation, kept_ms, channel =
  ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]

local now_us = clock_us()
local present, its, index = barrier_read(passed, token)
if its then return { 'passed', its, index } end
if generation ~= present then return { 'missed', present } end
local all = {}
for _, other in ipairs(redis.call('ZRANGEBYSCORE', waiting, whole(now_us), '+inf', 'LIMIT', '0', '-1')) do
  if other ~= token then all[#all + 1] = other end
end
local theirs = all[1] and -tonumber(redis.call('ZSCORE', waiting, '') or '0')
if theirs and theirs ~= parties then return { 'disagrees', theirs } end
all[#all + 1] = token

-- Those whose lease is over do not count any more.
local over = redis.call('ZRANGEBYSCORE', waiting, '0', '(' .. whole(now_us), 'LIMIT', '0', '-1')
for _, other in ipairs(over) do
  redis.call('ZREM', waiting, other)
end
if #all < parties then
  redis.call('ZADD', waiting, '-' .. parties, '') -- first: a set of tokens alone would be a lock
  redis.call('ZADD', waiting, whole(now_us + lease_ms * 1000), token)
  redis.call('PEXPIRE', waiting, kept_ms)
  redis.call('PEXPIRE', passed, kept_ms)
  return { 'waiting', #all }
end
-- All who count pass in this step, whatever becomes of them meanwhile. Those of the generation before last are forgotten.
local old = whole((generation - 1) * BARRIER_PARTIES_MAX)
for _, other in ipairs(redis.call('ZRANGEBYSCORE', passed, '-inf', '(' .. old, 'LIMIT', '0', '-1')) do
  redis.call('ZREM', passed, other)
end
for i, other in ipairs(all) do
  redis.call('ZADD', passed, whole(generation * BARRIER_PARTIES_MAX + i - 1), ':' .. other)
end
redis.call('DEL', waiting)
redis.call('PEXPIRE', passed, kept_ms)
broadcast(channel)
return { 'passed', generation, #all - 1 }
