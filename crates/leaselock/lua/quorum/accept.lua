-- quorum/accept: a second proposal for the fencing token of a vote that this server has given.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] proposed   the fencing token
-- ARGV[3] behind_us  how far it may be behind this server's clock
--
-- Returns {"accepted", time_us}          the proposal holds here
--         {"refused", least, time_us}    it does not: `least` would
--         {"gone", time_us}              the vote is not there any more; nothing was changed
--         the error DAMAGED fence, with its key    no vote of ours wrote this value; nothing was changed
-- Replay  refuses what it accepted: the owner of a number that is not larger is unknown
-- Writes  fence
--#include prelude fence proposal
local lock, fence = KEYS[1], KEYS[2]
local token, proposed, behind_us = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now_us = clock_us()
if redis.call('GET', lock) ~= token then return { 'gone', whole(now_us) } end
local holds, least = proposal_accept(fence, proposed, now_us, behind_us)
if holds == nil then return least end
if not holds then return { 'refused', whole(least), whole(now_us) } end
return { 'accepted', whole(now_us) }
