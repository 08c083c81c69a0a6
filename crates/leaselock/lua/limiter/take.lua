-- limiter/take: use up permits now, or reserve the moment at which they may be used.
--
-- KEYS[1] limiter      string; how full its buckets are (lua/limiter.lua)
-- KEYS[2] reserved     sorted set; ':id cost' of each reservation whose moment is to come; the score is that moment
-- KEYS[3] returned     sorted set; the same of each that was given back while later ones stand
-- ARGV[1] id           the caller's own, for this wait
-- ARGV[2] cost         integer > 0; how many permits, at most the burst of each band
-- ARGV[3] longest_us   integer; the longest wait. 0: now or not at all
-- ARGV[…] bands        period_us, per_permit, per_us and burst of each band (lua/limiter.lua); no period twice
--
-- Returns {"allowed", left, band}       the permits are used; left: how many more are there now
--         {"reserved", wait_us, band}   they may be used after this wait, and need no other request
--         {"limited", wait_us, band}    nothing was used; left alone, the limiter would allow them after this wait
--         band: the number, from 1, of the band that allows the fewest, or that allows the cost last
--         the error DAMAGED limiter, with its key    no script of ours wrote this value; nothing was changed
-- Replay  a reservation whose moment is to come: the same one. What was allowed is used up again, which never exceeds
--         the rate
-- Writes  limiter, reserved, returned
--#include prelude limiter
local limiter, reserved, returned = KEYS[1], KEYS[2], KEYS[3]
local id, cost, longest_us = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local state, damaged = limiter_read(limiter, limiter_bands(ARGV, 4), clock_us())
if damaged then return damaged end
if state.is_anew then redis.call('DEL', reserved, returned) end
local wait_us, band = limiter_wait_us(state, cost)
if wait_us == 0 then
  limiter_add(state, cost)
  limiter_write(limiter, state)
  local left, tightest = limiter_left(state)
  return { 'allowed', left, tightest }
end

local now = whole(state.clock_us)
local member, moment = ':' .. id .. ' ' .. cost, nil
if longest_us > 0 then
  local known = redis.call('ZSCORE', reserved, member)
  if known and tonumber(known) > state.clock_us then return { 'reserved', known - state.clock_us, band } end
  -- These moments are over.
  for _, set in ipairs({ reserved, returned }) do
    for _, over in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', '0', '64')) do
      redis.call('ZREM', set, over)
    end
  end
  -- The levels contain the cost of a moment that was given back, so a caller that needs no more can have it.
  local latest = whole(state.clock_us + longest_us)
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', returned, '(' .. now, latest, 'LIMIT', '0', '64')) do
    local whose, its_cost = string.match(other, '^(%S+) (%d+)$')
    if not moment and tonumber(its_cost) >= cost then
      moment = tonumber(redis.call('ZSCORE', returned, other))
      redis.call('ZREM', returned, other)
      if tonumber(its_cost) > cost then
        redis.call('ZADD', returned, whole(moment), whose .. ' ' .. whole(its_cost - cost))
      end
    end
  end
end
if not moment and wait_us > longest_us then
  if state.is_anew then limiter_write(limiter, state) end -- or the clock would stand still
  return { 'limited', wait_us, band }
end
if not moment then
  moment = state.clock_us + wait_us
  limiter_add(state, cost)
end
local kept_ms = limiter_write(limiter, state)
redis.call('ZADD', reserved, whole(moment), member)
redis.call('PEXPIRE', reserved, kept_ms)
redis.call('PEXPIRE', returned, kept_ms)
return { 'reserved', moment - state.clock_us, band }
