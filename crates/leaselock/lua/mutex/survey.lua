-- mutex/survey: find which of these names are held, and read those with no waiters or permits beside. Changes nothing.
--
-- KEYS[…] candidates  the five keys of mutex/inspect for each name; at most 200 keys
--
-- Returns {"locks", lock, …}    lock: the place of a name that is held, counted from 1; and value, pttl_ms, fence and why,
--                               as of mutex/inspect, if one client holds it, and there are no waiters, permits or damage
-- Replay  the same answer
-- Writes  nothing
--#include prelude fence member holds
local candidates = KEYS

local TOKEN_LENGTH, NOTE_MAX = 31, 1024
local KEYS_EACH, QUEUE, FENCE, WHY, USAGE = 5, 1, 2, 3, 4 -- where each is behind its lock

-- Most names have nothing beside the lock: one command for all of them finds that out.
local function exists_any(places)
  local keys = {}
  for first = 1, #candidates, KEYS_EACH do
    for _, place in ipairs(places) do
      keys[#keys + 1] = candidates[first + place]
    end
  end
  return redis.call('EXISTS', unpack(keys)) ~= 0
end
local some_are_beside, some_are_noted = exists_any({ QUEUE, USAGE }), exists_any({ WHY })

-- A set of holds; an error for a key of another type.
local function is_shared(key)
  local first = redis.pcall('ZRANGE', key, '0', '0')
  return not first.err and holds_is_ours(first[1])
end

local function held(place, value, first)
  local is_plain = not some_are_beside
    or redis.call('EXISTS', candidates[first + QUEUE], candidates[first + USAGE]) == 0
  local last = is_plain and fence_last(candidates[first + FENCE])
  if not last then return { place } end
  local noted = some_are_noted and redis.pcall('GET', candidates[first + WHY])
  local is_ours = type(noted) == 'string' and string.sub(noted, 1, TOKEN_LENGTH) == value
  local why = is_ours and string.sub(noted, TOKEN_LENGTH + 1, TOKEN_LENGTH + NOTE_MAX) or ''
  return { place, value, redis.call('PTTL', candidates[first]), is_fenced(value) and last or '0', why }
end

local answer = { 'locks' }
for first = 1, #candidates, KEYS_EACH do
  local place = (first - 1) / KEYS_EACH + 1
  local length = redis.pcall('STRLEN', candidates[first]) -- an error for another type
  local value = length == TOKEN_LENGTH and redis.call('GET', candidates[first]) or ''
  if client_of(value) ~= '' then
    answer[#answer + 1] = held(place, value, first)
  elseif type(length) == 'table' and is_shared(candidates[first]) then
    answer[#answer + 1] = { place }
  end
end
return answer
