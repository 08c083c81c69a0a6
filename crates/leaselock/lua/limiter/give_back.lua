-- limiter/give_back: give back a reservation before its moment. Behind the last one that stands it is as if it had never
-- been made; before others, whose moments stay, the next who reserves gets its moment.
--
-- KEYS[1] limiter      string; how full its buckets are (lua/limiter.lua)
-- KEYS[2] reserved     sorted set; ':id cost' of each reservation whose moment is to come; the score is that moment
-- KEYS[3] returned     sorted set; the same of each that was given back while later ones stand
-- ARGV[1] id           the caller's own, for this wait
-- ARGV[2] cost         integer > 0; as it was reserved
-- ARGV[…] bands        period_us, per_permit, per_us and burst of each band, as they were reserved
--
-- Returns {"given_back"}    it does not count any more
--         {"gone"}          its moment is over, it was given back before, or the server's clock went back
--         the error DAMAGED limiter, with its key    no script of ours wrote this value; nothing was changed
-- Replay  "gone"
-- Writes  limiter, reserved, returned
--#include prelude limiter
local limiter, reserved, returned = KEYS[1], KEYS[2], KEYS[3]
local id, cost = ARGV[1], ARGV[2]

local state, damaged = limiter_read(limiter, limiter_bands(ARGV, 3), clock_us())
if damaged then return damaged end
local member = ':' .. id .. ' ' .. cost
local moment = tonumber(redis.call('ZSCORE', reserved, member) or '0')
if state.is_anew or moment <= state.clock_us then return { 'gone' } end

redis.call('ZCARD', returned) -- before all writes: the server refuses another type
redis.call('ZREM', reserved, member)
redis.call('ZADD', returned, whole(moment), member)
-- Before the moment of a reservation no permits are allowed that were asked for later. So behind the last one that
-- stands the levels contain nothing but what was given back.
local last = tonumber(redis.call('ZREVRANGE', reserved, '0', '0', 'WITHSCORES')[2] or '0')
local behind = '(' .. whole(math.max(last, state.clock_us))
for _, other in ipairs(redis.call('ZRANGEBYSCORE', returned, behind, '+inf', 'LIMIT', '0', '-1')) do
  redis.call('ZREM', returned, other)
  limiter_add(state, -tonumber(string.match(other, '%d+$')))
end
local kept_ms = limiter_write(limiter, state)
redis.call('PEXPIRE', reserved, kept_ms)
redis.call('PEXPIRE', returned, kept_ms)
return { 'given_back' }
