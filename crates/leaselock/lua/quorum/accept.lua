-- quorum/accept: a second proposal for the fencing token of a vote that this server has given.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] fence      string; 'first:last' of the latest grant, kept 7 days (lua/fence.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] proposed   the fencing token
-- ARGV[3] behind_us  by how much it may be behind this server's clock
--
-- Returns {"accepted", time_us}          the proposal holds here
--         {"refused", least, time_us}    it does not: `least` would
--         {"gone", time_us}              the vote is not there any more; nothing was changed
-- Replay  refuses what it accepted: who holds a number that is not larger cannot be told
-- Writes  fence
local lock, fence = KEYS[1], KEYS[2]
local token, proposed, behind_us = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now_us = clock_us()
if redis.call('GET', lock) ~= token then return { 'gone', whole(now_us) } end
local wish = tonumber(proposed)
local _, last = fence_read(fence)
if wish <= last or wish < now_us - behind_us then
  return { 'refused', whole(math.max(last + 1, now_us)), whole(now_us) }
end
redis.call('SET', fence, proposed .. ':' .. proposed, 'PX', FENCE_KEPT_MS)
return { 'accepted', whole(now_us) }
