-- client/who: read the record of a client. Changes nothing.
--
-- KEYS[1] record     string; host, pid, process name and start, one a line; then words with their values
--
-- Returns {"known", about}    as written by client/announce
--         {"unknown"}         never written, or expired; or the value is of no client of ours
-- Replay  the same answer
-- Writes  nothing
local record = KEYS[1]

local ABOUT_MAX = 4096 -- bytes; ours have no more

local about = redis.pcall('GET', record)
if type(about) == 'table' and not string.find(about.err, 'WRONGTYPE', 1, true) then return about end
if type(about) == 'string' and #about <= ABOUT_MAX then return { 'known', about } end
return { 'unknown' }
