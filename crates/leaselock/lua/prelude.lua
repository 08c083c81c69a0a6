-- prelude: the functions of every script, except of a plain case that runs without.
-- Numbers above 14 digits are returned through whole(), because Lua would print 1e+15 for them.

-- Server time in microseconds. A script reads it once: it advances while the script runs.
local time_us, time_text
local function clock_of(time)
--#inline now
  time_text, time_us = now, tonumber(now)
  return time_us
end

local function clock_us()
  return clock_of(redis.call('TIME'))
end

-- Most answers have the time that was read, whose text is reused: formatting it costs as much as a command.
local function whole(number)
  return number == time_us and time_text or string.format('%.0f', number)
end

-- Constants of one function are in it: each one outside costs every script.

-- The client inside a token, or '' (lua/inline/holder.lua).
local function client_of(held)
--#inline holder
  return holder
end

-- Whether a grant of this token has a fencing token.
local function is_fenced(token)
  local SIGN_AT, FENCED, FENCED_BROKEN = 23, 46, 33 -- '.' and '!' (lua/inline/holder.lua)
  local sign = string.byte(token, SIGN_AT)
  return sign == FENCED or sign == FENCED_BROKEN
end

-- What redis.pcall returned; nil and true when the key holds another type. Any other refusal is raised.
local function of_type(answer)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if string.find(answer.err, 'WRONGTYPE', 1, true) then return nil, true end
  error(answer.err, 0)
end
