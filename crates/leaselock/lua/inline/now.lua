-- now: `time`, the server's (TIME), in microseconds, as text.
local now = time[1] .. string.sub('000000' .. time[2], -6)
