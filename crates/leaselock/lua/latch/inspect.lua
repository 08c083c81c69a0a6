-- latch/inspect: read who has arrived. Changes nothing.
--
-- KEYS[1] latch      sorted set; who has arrived (lua/latch.lua)
-- ARGV[1] count      integer > 0; how many parties there are
--
-- Returns {"arrived", left, parties}    parties: the names of those that have arrived, in order; left: how many are
--                                       missing. 0: the latch is open
--         {"disagrees", count}          others say that there are so many parties
-- Replay  the same answer
-- Writes  nothing
--#include latch
local latch = KEYS[1]
local count = tonumber(ARGV[1])

local theirs, arrived = latch_read(latch)
if theirs and theirs ~= count then return { 'disagrees', theirs } end
return { 'arrived', count - #arrived, arrived }
