-- mutex/survey: find which of these names are held, and read those with no waiters or permits beside. Changes nothing.
--
-- KEYS[…] candidates  the eight keys of mutex/inspect for each name; at most 200 keys
--
-- Returns {"locks", lock, …}    lock: the place of a name that is held, counted from 1; and value, pttl_ms, fence, why and
--                               kind, as of mutex/inspect, if one client holds it, and there are no waiters or permits;
--                               value may be another library's; fence: its latest id, '0-0' when none is known, '' when the
--                               key has another type
-- Replay  the same answer
-- Writes  nothing
--#include prelude member holds kind
local candidates = KEYS

local TOKEN_LENGTH, NOTE_MAX = 31, 1024
local KEYS_EACH, QUEUE, FENCE, WHY, USAGE, LEADER, ONCE, CRON = 8, 1, 2, 3, 4, 5, 6, 7 -- where each is behind its lock

-- Most names have nothing beside the lock: one command for all of them finds that out.
local function exists_any(places)
  local keys, count = {}, 0
  for first = 1, #candidates, KEYS_EACH do
    for i = 1, #places do
      count = count + 1
      keys[count] = candidates[first + places[i]]
    end
  end
  return redis.call('EXISTS', unpack(keys)) ~= 0
end
local some_have_more = exists_any({ QUEUE, WHY, USAGE, LEADER, ONCE, CRON })
local function some_have(...)
  return some_have_more and exists_any({ ... })
end
local some_are_beside, some_are_noted, some_have_kinds =
  some_have(QUEUE, USAGE), some_have(WHY), some_have(LEADER, ONCE, CRON)

-- A set of holds, of a key that is no string.
local function is_shared(key, refused)
  of_type(refused)
  local first = redis.pcall('ZRANGE', key, '0', '0')
  return not first.err and holds_is_ours(first[1])
end

-- The client makes the number of it: the texts cost more here than the command.
local function last_id(fence)
  local info = redis.pcall('XINFO', 'STREAM', fence)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
  return string.find(info.err, 'no such key', 1, true) and '0-0' or ''
end

local function held(place, value, first)
  local is_plain = not some_are_beside
    or redis.call('EXISTS', candidates[first + QUEUE], candidates[first + USAGE]) == 0
  if not is_plain then return { place } end
  local noted = some_are_noted and redis.pcall('GET', candidates[first + WHY])
  local is_ours = type(noted) == 'string' and string.sub(noted, 1, TOKEN_LENGTH) == value
  local why = is_ours and string.sub(noted, TOKEN_LENGTH + 1, TOKEN_LENGTH + NOTE_MAX) or ''
  local kind = some_have_kinds
    and kind_of(value, candidates[first + LEADER], candidates[first + ONCE], candidates[first + CRON])
  return { place, value, redis.call('PTTL', candidates[first]), last_id(candidates[first + FENCE]), why, kind or '' }
end

local answer = { 'locks' }
for first = 1, #candidates, KEYS_EACH do
  local place = (first - 1) / KEYS_EACH + 1
  local length = redis.pcall('STRLEN', candidates[first]) -- an error for another type
  if length == TOKEN_LENGTH then
    answer[#answer + 1] = held(place, redis.call('GET', candidates[first]), first)
  elseif type(length) == 'table' and is_shared(candidates[first], length) then
    answer[#answer + 1] = { place }
  end
end
return answer
