-- strict/status: whether the gate of strict mode is open. Changes nothing. On servers only.
--
-- KEYS[1] gate  string; its server, until when it is closed, the longest ttl (lua/gate.lua)
--
-- Returns {"missing", time_us}                      never set up, or lost with the data: the next acquire closes it
--         {"moved", longest_ms, time_us}            another server's: the next acquire closes it
--         {"closed", left_ms, longest_ms, time_us}  nothing is granted for so long
--         {"open", longest_ms, time_us}             grants are made
-- Replay  the same answer
-- Writes  nothing
--#include prelude gate
local gate = KEYS[1]

local now_us = clock_us()
local server, until_us, longest_ms = gate_read(gate)
if not server then return { 'missing', whole(now_us) } end
if server ~= gate_server() then return { 'moved', longest_ms, whole(now_us) } end
if until_us - now_us > 0 then
  return { 'closed', math.ceil((until_us - now_us) / 1000), longest_ms, whole(now_us) }
end
return { 'open', longest_ms, whole(now_us) }
