-- fence: fencing tokens, larger with every grant.
-- The key holds 'first:last' of the current grant, so that a replay answers the same numbers: one, or a range for a
-- queue entry that several tasks of one process share. An 's' behind them says that the grant was to a reader: all who
-- join it have the same number, which is larger than that of the writer before and smaller than that of the writer after
-- them. It is kept for seven days; seeding with server time in
-- microseconds makes a number larger even after its loss. Plain cases write it without changing its expiry, which costs
-- half as much, unless the six leading digits of the time have changed since the previous grant: that happens every
-- 10 000 s, by which it is kept longer.

-- A value that no grant writes is damaged: earlier numbers are then unknown, so nothing is granted.

local FENCE_KEPT_MS = '614800000' -- text: the server would format a number each time
local FENCE_LENGTH = 33 -- two numbers of 16 digits, as nearly always
local SAME_10000_S = 6 -- so many leading digits of a time of 16 digits stay the same for 10 000 s
local FENCE_END = 9007199253692416 -- 2^53 less the longest range: above 2^53 a double skips numbers
local FENCE_RANGE_MAX = 1048576

-- The first and last number in the value of a fence, and whether readers have it; nil when it is damaged.
local function fence_parse(value)
  local first_text, last_text, shared = string.match(value, '^(%d+):(%d+)(s?)$')
  if not first_text or #first_text > 16 or #last_text > 16 then return nil end
  local first, last = tonumber(first_text), tonumber(last_text)
  if first > last or last >= FENCE_END or last - first >= FENCE_RANGE_MAX then return nil end
  return first, last, shared == 's'
end

local function fence_damaged(fence)
  return { err = 'DAMAGED fence ' .. fence }
end

-- Reads only: the first and last number of the latest grant, and whether readers have it; 0 and 0 when none is known,
-- nil when it is damaged.
local function fence_read(fence)
  local value, other = of_type(redis.pcall('GET', fence))
  if other then return nil end
  if not value then return 0, 0 end
  return fence_parse(value)
end

-- Reads only: the first and last number of the lease that this value holds; 0 for a foreign one, for one without
-- fencing, and when the fence is damaged.
local function fence_of(value, fence)
  if not is_fenced(value) or client_of(value) == '' then return 0, 0 end
  local first, last = fence_read(fence)
  return first or 0, last or 0
end

-- Writes the next `range` numbers and returns the first. `mark` is 's' for readers.
local function fence_mint(fence, last, now_us, range, mark)
  local first = math.max(last + 1, now_us)
  local text = whole(first)
  local value = text .. ':' .. (range == 1 and text or whole(first + range - 1)) .. (mark or '')
  redis.call('SET', fence, value, 'PX', FENCE_KEPT_MS)
  return text
end

-- Writes: the numbers above `used` were reserved and not used. Memory pressure may refuse the write: then they are
-- lost, and the next ones are larger all the same.
local function fence_lower(fence, first, used)
  redis.pcall('SET', fence, whole(first) .. ':' .. whole(used), 'PX', FENCE_KEPT_MS)
end
