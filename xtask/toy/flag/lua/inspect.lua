-- flag/inspect: read whether the flag is up. Changes nothing.
--
-- KEYS[1] flag       string; it is there while the flag is up
--
-- Returns {"up"}      it was raised
--         {"down"}    it was not, or too long ago
-- Replay  the same answer
-- Writes  nothing
local flag = KEYS[1]

if redis.call('EXISTS', flag) == 1 then return { 'up' } end
return { 'down' }
