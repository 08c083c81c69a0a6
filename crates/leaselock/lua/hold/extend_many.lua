-- hold/extend_many: extend many reads or permits, each for itself.
--
-- KEYS[…] locks      what is held (lua/holds.lua), once for each hold; the only keys touched
-- ARGV[1] ttl_ms     integer > 0; for each
-- ARGV[…] holds      in the order of the locks, at most 256: each holder's proof of ownership and, behind it, 's', 'u', or
--                    'w' and how many permits
--
-- Returns {"answered", time_us, letters}   one letter for each item, in the order of the locks:
--           x  extended: held for at least ttl_ms from time_us
--           -  any other case: use hold/extend, which does no harm a second time
-- Replay  harmless: the same answers as long as the tokens hold
-- Writes  locks
--#include prelude many member
local ttl_ms = tonumber(ARGV[1])

local now_us, letters = clock_us(), {}
local until_us = now_us + ttl_ms * 1000

-- First what memory pressure does not refuse: then it refuses nothing that follows.
local function extend(lock, hold)
  local pttl_ms = redis.pcall('PTTL', lock)
  if type(pttl_ms) ~= 'number' then return false end
  if redis.pcall('PEXPIRE', lock, math.max(pttl_ms, ttl_ms + 1)) ~= 1 then return false end
  if type(redis.pcall('ZADD', lock, 'XX', whole(until_us), hold)) ~= 'number' then return false end
  return not member_mark(hold) or type(redis.pcall('ZADD', lock, 'XX', whole(until_us), 'u')) == 'number'
end

for i = 1, #KEYS do
  local hold = member_of(string.sub(ARGV[i + 1], HOLD_START), string.sub(ARGV[i + 1], 1, HOLD_START - 1))
  local ends = #KEYS > MANY_MAX and {} or redis.pcall('ZSCORE', KEYS[i], hold)
  local ours = type(ends) == 'string' and tonumber(ends) >= now_us
  letters[i] = ours and (tonumber(ends) >= until_us or extend(KEYS[i], hold)) and 'x' or '-'
end
return { 'answered', whole(now_us), table.concat(letters) }
