-- fence: fencing tokens, larger with every grant.
-- The key holds 'first:last' of the current grant, so that a replay answers the same numbers: one, or a range for a
-- place in line that several tasks of one process share. It is kept for seven days, not for ever; seeding with server
-- time in microseconds makes a number after its loss larger too.
-- Plain cases write it and leave its end as it is, which costs half as much, unless the six leading digits of the time
-- have changed since the grant before: that happens every 10 000 s, by which it is kept longer.

local FENCE_KEPT_MS = '614800000' -- text: the server would make text of a number each time

-- Reads only: the first and last number of the latest grant; 0 and 0 when none is known.
local function fence_read(fence)
  local first, last = string.match(redis.call('GET', fence) or '', '^(%d+):(%d+)$')
  return tonumber(first) or 0, tonumber(last) or 0
end

-- Reads only: the first and last number of the lease that this value holds; 0 for a foreign one and for one without.
local function fence_of(value, fence)
  if not is_fenced(value) or client_of(value) == '' then return 0, 0 end
  return fence_read(fence)
end

-- Writes the next `range` numbers and returns the first.
local function fence_mint(fence, last, now_us, range)
  local first = math.max(last + 1, now_us)
  local text = whole(first)
  redis.call('SET', fence, text .. ':' .. (range == 1 and text or whole(first + range - 1)), 'PX', FENCE_KEPT_MS)
  return text
end

-- Writes: the numbers above `used` were reserved and not needed. Refused for lack of memory it may be: they are
-- lost then, and the next are larger all the same.
local function fence_lower(fence, first, used)
  redis.pcall('SET', fence, whole(first) .. ':' .. whole(used), 'PX', FENCE_KEPT_MS)
end
