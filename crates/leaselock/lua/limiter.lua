-- limiter: a leaky bucket for each band of a rate: so many permits in a period, with a burst (GCRA, ITU-T I.371).
-- The state is a string: the limiter's clock, how far that is ahead of the server's, and for each band in debt
-- 'period_us:pays:debt'. A permit adds `price` to the debt of its band, and each microsecond pays off `pays` of it. All
-- of them are whole numbers, so nothing is rounded. Price and pays come with each request: no rate is stored.
-- The limiter's clock never goes back. When the server's does, the limiter's stands still for one request and is ahead
-- from then on, so that no request waits until the server's time has caught up.

-- The bands of a request: period_us, price, pays and burst for each, from the argument `first` on.
local function limiter_bands(args, first)
  local bands = {}
  for i = first, #args, 4 do
    local price, pays, burst = tonumber(args[i + 1]), tonumber(args[i + 2]), tonumber(args[i + 3])
    bands[#bands + 1] = { period_us = args[i], price = price, pays = pays, burst = burst, debt = 0 }
  end
  return bands
end

-- Reads only: the state now, with the debts of the bands. `is_anew` says that no earlier reservation counts: the state
-- is gone, or the server's clock went back and nobody knows how much of a reserved time is over.
local function limiter_read(limiter, bands, now_us)
  local text = redis.call('GET', limiter)
  local kept_us, ahead_us, debts = string.match(text or '0 0', '^(%d+) (%d+)(.*)$')
  if not kept_us then return nil, { err = 'DAMAGED limiter ' .. limiter } end
  local clock_us = math.max(tonumber(kept_us), now_us + ahead_us)
  local state = { bands = bands, clock_us = clock_us, ahead_us = clock_us - now_us, others = '', debt_us = 0 }
  state.is_anew = not text or clock_us > now_us + ahead_us
  local past_us, by_period = clock_us - kept_us, {}
  for _, band in ipairs(bands) do
    by_period[band.period_us] = band
  end
  for period_us, pays, debt in string.gmatch(debts, '(%d+):(%d+):(%d+)') do
    local left, band = debt - past_us * pays, by_period[period_us]
    if left > 0 and band then
      band.debt = band.pays == tonumber(pays) and left or math.ceil(left / pays * band.pays)
    elseif left > 0 then -- of clients that ask for another rate
      state.others = state.others .. ' ' .. period_us .. ':' .. pays .. ':' .. whole(left)
      state.debt_us = math.max(state.debt_us, left / pays)
    end
  end
  return state
end

-- How long it takes until every band allows the cost, in whole microseconds.
local function limiter_wait_us(state, cost)
  local wait_us = 0
  for _, band in ipairs(state.bands) do
    wait_us = math.max(wait_us, math.ceil((band.debt + (cost - band.burst) * band.price) / band.pays))
  end
  return wait_us
end

-- How many permits every band allows now.
local function limiter_left(state)
  local left = math.huge
  for _, band in ipairs(state.bands) do
    left = math.min(left, band.burst - math.ceil(band.debt / band.price))
  end
  return math.max(0, left)
end

-- Adds a cost to the debts; one below zero takes it off.
local function limiter_add(state, cost)
  for _, band in ipairs(state.bands) do
    band.debt = math.max(0, band.debt + cost * band.price)
  end
end

-- Writes the state. Returns how long it is kept: until every debt is paid, and a second.
local function limiter_write(limiter, state)
  local text, debt_us = whole(state.clock_us) .. ' ' .. whole(state.ahead_us) .. state.others, state.debt_us
  for _, band in ipairs(state.bands) do
    if band.debt > 0 then
      text = text .. ' ' .. band.period_us .. ':' .. whole(band.pays) .. ':' .. whole(band.debt)
      debt_us = math.max(debt_us, band.debt / band.pays)
    end
  end
  local kept_ms = math.ceil(debt_us / 1000) + 1000
  redis.call('SET', limiter, text, 'PX', kept_ms)
  return kept_ms
end
