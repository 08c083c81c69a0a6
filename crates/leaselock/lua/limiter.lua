-- limiter: a leaky bucket for each band of a rate: so many permits in a period, with a burst (GCRA, ITU-T I.371).
-- The state is a string: the limiter's clock, how far that is ahead of the server's, and for each bucket that is not empty
-- 'period_us:per_us:level'. A permit adds `per_permit` to the level, and each microsecond takes `per_us` off. All of them
-- are whole numbers, so nothing is rounded. Both come with each request: no rate is stored.
-- The limiter's clock never goes back. When the server's does, the limiter's stands still for one request and is ahead
-- from then on, so that no request waits until the server's time has caught up.

-- The bands of a request: period_us, per_permit, per_us and burst for each, from the argument `first` on.
local function limiter_bands(args, first)
  local bands = {}
  for i = first, #args, 4 do
    local per_permit, per_us, burst = tonumber(args[i + 1]), tonumber(args[i + 2]), tonumber(args[i + 3])
    bands[#bands + 1] = { period_us = args[i], per_permit = per_permit, per_us = per_us, burst = burst, level = 0 }
  end
  return bands
end

-- Reads only: the state now, with the level of each band. `is_anew` says that no earlier reservation counts: the state
-- is gone, or the server's clock went back, and no script can know how much of a reserved time is over.
local function limiter_read(limiter, bands, now_us)
  local text = redis.call('GET', limiter)
  local kept_us, ahead_us, levels = string.match(text or '0 0', '^(%d+) (%d+)(.*)$')
  if not kept_us then return nil, { err = 'DAMAGED limiter ' .. limiter } end
  local clock_us = math.max(tonumber(kept_us), now_us + ahead_us)
  local state = { bands = bands, clock_us = clock_us, ahead_us = clock_us - now_us, others = '', empty_us = 0 }
  state.is_anew = not text or clock_us > now_us + ahead_us
  local past_us, by_period = clock_us - kept_us, {}
  for _, band in ipairs(bands) do
    by_period[band.period_us] = band
  end
  for period_us, per_us, level in string.gmatch(levels, '(%d+):(%d+):(%d+)') do
    local left, band = level - past_us * per_us, by_period[period_us]
    if left > 0 and band then
      band.level = band.per_us == tonumber(per_us) and left or math.ceil(left / per_us * band.per_us)
    elseif left > 0 then -- of clients that ask for another rate
      state.others = state.others .. ' ' .. period_us .. ':' .. per_us .. ':' .. whole(left)
      state.empty_us = math.max(state.empty_us, left / per_us)
    end
  end
  return state
end

-- How long it takes until every band allows the cost, in whole microseconds, and the number of the band that is last.
local function limiter_wait_us(state, cost)
  local longest_us, last = 0, 1
  for i, band in ipairs(state.bands) do
    local wait_us = math.ceil((band.level + (cost - band.burst) * band.per_permit) / band.per_us)
    if wait_us > longest_us then longest_us, last = wait_us, i end
  end
  return longest_us, last
end

-- How many permits every band allows now, and the number of the band that allows the fewest.
local function limiter_left(state)
  local fewest, tightest = math.huge, 1
  for i, band in ipairs(state.bands) do
    local left = band.burst - math.ceil(band.level / band.per_permit)
    if left < fewest then fewest, tightest = left, i end
  end
  return math.max(0, fewest), tightest
end

-- Adds a cost to the levels; one below zero takes it off.
local function limiter_add(state, cost)
  for _, band in ipairs(state.bands) do
    band.level = math.max(0, band.level + cost * band.per_permit)
  end
end

-- Writes the state. Returns how long it is kept: until every bucket is empty, and a second.
local function limiter_write(limiter, state)
  local text, empty_us = whole(state.clock_us) .. ' ' .. whole(state.ahead_us) .. state.others, state.empty_us
  for _, band in ipairs(state.bands) do
    if band.level > 0 then
      text = text .. ' ' .. band.period_us .. ':' .. whole(band.per_us) .. ':' .. whole(band.level)
      empty_us = math.max(empty_us, band.level / band.per_us)
    end
  end
  local kept_ms = math.ceil(empty_us / 1000) + 1000
  redis.call('SET', limiter, text, 'PX', kept_ms)
  return kept_ms
end
