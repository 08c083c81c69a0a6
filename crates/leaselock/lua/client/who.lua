-- client/who: what a client said about itself. Changes nothing.
--
-- KEYS[1] record     string; host, pid, process name and start, one a line
--
-- Returns {"known", about}    as written by client/announce
--         {"unknown"}         never said, or long gone
-- Replay  the same answer
-- Writes  nothing
local record = KEYS[1]

local about = redis.call('GET', record)
if about then return { 'known', about } end
return { 'unknown' }
