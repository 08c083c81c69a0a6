-- prelude: what every script begins with.
-- Numbers above 14 digits leave through whole(), because Lua would print 1e+15 for them.

-- Server time in microseconds. A script reads it once: it moves while the script runs.
local function clock_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function whole(number)
  return string.format('%.0f', number)
end

-- The client inside one of our own tokens, or '' for a foreign value. A token is 22 characters, '.' (or '~' when the
-- lease has no fencing token), and 8 characters of client.
local function client_of(value)
  return #value == 31 and string.match(value, '^[%w_-]+[.~]([%w_-]+)$') or ''
end
