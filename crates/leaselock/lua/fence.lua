-- fence: fencing tokens, larger with every grant.
-- The key holds 'first:last' of the current grant, so that a replay answers the same number. It is kept for
-- seven days, not for ever; seeding with server time in microseconds makes a number after its loss larger too.
local FENCE_KEPT_MS = 604800000

-- Reads only: the first and last number of the latest grant; 0 and 0 when none is known.
local function fence_read(fence)
  local first, last = string.match(redis.call('GET', fence) or '', '^(%d+):(%d+)$')
  return tonumber(first) or 0, tonumber(last) or 0
end

-- Reads only: the number of the lease that this value holds; 0 for a foreign one and for one without.
local function fence_of(value, fence)
  local _, last = fence_read(fence)
  return string.sub(value, 23, 23) == '.' and client_of(value) ~= '' and last or 0
end

-- Writes and returns the next number.
local function fence_mint(fence, last, now_us)
  local minted = whole(math.max(last + 1, now_us))
  redis.call('SET', fence, minted .. ':' .. minted, 'PX', FENCE_KEPT_MS)
  return minted
end
