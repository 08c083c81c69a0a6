-- mutex/survey: find which of these keys hold one of our tokens. Changes nothing.
--
-- KEYS[…] candidates  any keys, at most 256
--
-- Returns {"locks", index, …}    counted from 1
-- Replay  the same answer
-- Writes  nothing
--#include prelude member holds
local candidates = KEYS

local TOKEN_LENGTH = 31

-- A set of holds; an error for a key of another type.
local function is_shared(key)
  local first = redis.pcall('ZRANGE', key, '0', '0')
  return not first.err and holds_is_ours(first[1])
end

local answer = { 'locks' }
for i, key in ipairs(candidates) do
  local length = redis.pcall('STRLEN', key) -- an error for another type
  if length == TOKEN_LENGTH and client_of(redis.call('GET', key)) ~= '' or type(length) == 'table' and is_shared(key) then
    answer[#answer + 1] = i
  end
end
return answer
