-- quorum/accept: a second proposal for the fencing token of a vote that this server has given.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] fence      string; 'first:last' of the latest grant, kept 7 days (lua/proposal.lua)
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
local before, other = of_type(redis.pcall('GET', fence))
local holds, least = proposal_holds(before, tonumber(proposed), now_us, behind_us)
if other or holds == nil then return fence_damaged(fence) end
if not holds then return { 'refused', whole(least), whole(now_us) } end
local refusal = proposal_write(fence, before, proposed)
if refusal then return refusal end
return { 'accepted', whole(now_us) }
