-- mutex/survey: find which of these names are held, and read those with nothing beside the lock. Changes nothing.
--
-- KEYS[…] candidates  the five keys of mutex/inspect for each name; at most 200 keys
--
-- Returns {"locks", lock, …}    lock: the place of a name that is held, counted from 1; and value, pttl_ms and fence, as
--                               of mutex/inspect, if one client holds it, and there are no waiters, note or permits, and
--                               no damage
-- Replay  the same answer
-- Writes  nothing
--#include prelude fence member holds
local candidates = KEYS

local TOKEN_LENGTH = 31
local KEYS_EACH = 5

-- A set of holds; an error for a key of another type.
local function is_shared(key)
  local first = redis.pcall('ZRANGE', key, '0', '0')
  return not first.err and holds_is_ours(first[1])
end

local function held(place, value, first)
  local lock, queue, fence, why, usage = unpack(candidates, first, first + KEYS_EACH - 1)
  local last = redis.call('EXISTS', queue, why, usage) == 0 and fence_last(fence)
  return last and { place, value, redis.call('PTTL', lock), is_fenced(value) and last or '0' } or { place }
end

local answer = { 'locks' }
for first = 1, #candidates, KEYS_EACH do
  local lock, place = candidates[first], (first - 1) / KEYS_EACH + 1
  local length = redis.pcall('STRLEN', lock) -- an error for another type
  local value = length == TOKEN_LENGTH and redis.call('GET', lock) or ''
  if client_of(value) ~= '' then
    answer[#answer + 1] = held(place, value, first)
  elseif type(length) == 'table' and is_shared(lock) then
    answer[#answer + 1] = { place }
  end
end
return answer
