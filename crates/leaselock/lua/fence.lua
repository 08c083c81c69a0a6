-- fence: fencing tokens, larger with every grant.
-- The key is a stream that stays empty. As its next id the server takes its own time, or the id after the latest one if
-- that is larger. The number is the milliseconds of the id and, in three digits, its count within one of them. So it is
-- larger than all before it, and ahead of the clock in microseconds by a millisecond and one range at most: a new key
-- begins behind that, so its numbers are larger than those of a key that was lost, as long as the server's clock does not
-- go back.
-- No number is taken back: one that is not used is wasted. Each grant keeps the key for 26 hours, so that a clock may go
-- back by a day; a lease that is renewed keeps it too (lua/hold/keep.lua).

-- A key of another type is damaged, and so is an id beyond the numbers: earlier ones are then unknown, so nothing is
-- granted. A count that no grant writes is passed over.

local FENCE_KEPT_MS = '93600000' -- how long the latest number is kept. Text: the server would format a number each time
local FENCE_END = 9000000000000000 -- above 2^53 a double skips numbers

local function fence_damaged(fence)
  return { err = 'DAMAGED fence ' .. fence }
end

-- The refusal of a command on the key, as this script answers it.
local function fence_refusal(refused, fence)
  local is_damage = string.find(refused.err, 'WRONGTYPE', 1, true) or string.find(refused.err, 'exhausted', 1, true)
  return is_damage and fence_damaged(fence) or refused
end

-- The number of an id, as text; nil when no grant writes such an id.
local function fence_number(id)
--#inline number
  return #count <= 3 and ms * 1000 < FENCE_END and number or nil
end

-- Writes a number that is given, and does not renew the ttl; the server refuses one that is not larger than all before it.
local function fence_advance(fence, number)
  local text = whole(number)
  local id = string.sub(text, 1, -4) .. '-' .. tonumber(string.sub(text, -3))
  return redis.pcall('XADD', fence, 'MAXLEN', '0', id, '-', '-')
end

-- Writes the next number, and returns its text; nil and the error when that is refused.
local function fence_mint(fence)
--#inline mint
  if id.err then return nil, fence_refusal(id, fence) end
  if not is_minted then
    -- A thousand grants in one millisecond, as behind a clock that went back. The next one begins.
    local next_ms = string.match(id, '^%d+') + 1
    if next_ms * 1000 >= FENCE_END then return nil, fence_damaged(fence) end
    id = whole(next_ms) .. '-0'
    fence_advance(fence, next_ms * 1000)
    redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
  end
  return fence_number(id)
end

-- Writes: reserves so many numbers from `first` on, and returns how many: one alone when it is ahead of the clock by more
-- than the millisecond that may begin in this script, so that numbers that are not used never add up.
local function fence_reserve(fence, first, range, now_us)
  if range == 1 or tonumber(first) > now_us + 1000 then return 1 end
  fence_advance(fence, first + range - 1)
  return range
end

-- Reads only: the latest number, as text; '0' when none is known, nil when the key is damaged; nil and an error when it
-- may not be read.
local function fence_last(fence)
  local info = redis.pcall('XINFO', 'STREAM', fence)
  if info.err and string.find(info.err, 'no such key', 1, true) then return '0' end
  if info.err and not string.find(info.err, 'WRONGTYPE', 1, true) then return nil, info end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return fence_number(info[i + 1]) end
  end
end

-- Reads only: the number of the lease that this value holds alone, of several the last; '0' for a foreign one, for one
-- without fencing, and when the fence is damaged.
local function fence_of(value, fence)
  if not is_fenced(value) or client_of(value) == '' then return '0' end
  return fence_last(fence) or '0'
end
