-- counter/read: read a counter. Changes nothing.
--
-- KEYS[1] counter    hash; value, the number
--
-- Returns {"value", value}    the number; 0 for a counter that no client has changed
--         the error DAMAGED counter, with its key    it is no whole number
-- Replay  the same answer
-- Writes  nothing
local counter = KEYS[1]

local value = redis.call('HGET', counter, 'value') or '0'
if not string.find(value, '^%-?%d+$') then return { err = 'DAMAGED counter ' .. counter } end
return { 'value', value }
