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
-- ARGV[7] told       the token of an earlier wait that has been told that it passed: it is forgotten. '' without
--
-- Returns {"passed", index}         all have arrived; index: from 0, one for each party of the generation
--         {"waiting", arrived}      so many have arrived
--         {"missed", generation}    this is the generation by now, and the caller has not passed, as far as is remembered
--         {"disagrees", parties}    those who wait say that so many pass together; nothing was changed
-- Replay  the same answer; no party counts twice
-- Writes  waiting, passed
--#include prelude broadcast barrier
local waiting, passed = KEYS[1], KEYS[2]
local token, parties, lease_ms, generation, kept_ms, channel, told =
  ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

local now_us = clock_us()
local present, index = barrier_read(passed, token)
if index then return { 'passed', index } end
if generation ~= present then return { 'missed', present } end
local all = {}
for _, other in ipairs(redis.call('ZRANGEBYSCORE', waiting, whole(now_us), '+inf', 'LIMIT', '0', '-1')) do
  if other ~= token then all[#all + 1] = other end
end
local theirs = all[1] and -tonumber(redis.call('ZSCORE', waiting, '') or '0')
if theirs and theirs ~= parties then return { 'disagrees', theirs } end
all[#all + 1] = token

if told ~= '' then redis.call('ZREM', passed, ':' .. told) end
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
-- All who count pass in this step, whatever becomes of them meanwhile. That is remembered until the longest of their
-- leases is over, also if it was renewed just now. A step forgets more than it adds, and not all at once.
local old = '(' .. whole(math.floor(now_us / 1000000) * BARRIER_PARTIES_MAX)
for _, other in ipairs(redis.call('ZRANGEBYSCORE', passed, '0', old, 'LIMIT', '0', whole(2 * parties))) do
  redis.call('ZREM', passed, other)
end
local longest_us = tonumber(redis.call('ZREVRANGE', waiting, '0', '0', 'WITHSCORES')[2] or '0')
local until_s = math.ceil(math.max(longest_us, now_us + lease_ms * 1000) / 1000000)
redis.call('ZADD', passed, '-' .. whole(generation + 1), '') -- first, as above
for i, other in ipairs(all) do
  redis.call('ZADD', passed, whole(until_s * BARRIER_PARTIES_MAX + i - 1), ':' .. other)
end
redis.call('DEL', waiting)
redis.call('PEXPIRE', passed, kept_ms)
broadcast(channel)
return { 'passed', #all - 1 }
