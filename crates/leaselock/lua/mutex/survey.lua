-- mutex/survey: find which of these keys hold one of our tokens. Changes nothing.
--
-- KEYS[…] candidates  any keys, at most 256
--
-- Returns {"locks", index, …}    counted from 1
-- Replay  the same answer
-- Writes  nothing
--#include prelude
local candidates = KEYS

local TOKEN_LENGTH = 31

local answer = { 'locks' }
for i, key in ipairs(candidates) do
  local length = redis.pcall('STRLEN', key) -- an error for another type
  if length == TOKEN_LENGTH and client_of(redis.call('GET', key)) ~= '' then answer[#answer + 1] = i end
end
return answer
