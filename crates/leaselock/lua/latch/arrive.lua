-- latch/arrive: a party arrives; the last one opens the latch.
--
-- KEYS[1] latch      sorted set; who has arrived (lua/latch.lua)
-- ARGV[1] party      the name of the party, which counts once
-- ARGV[2] count      integer > 0; how many parties there are
-- ARGV[3] kept_ms    integer > 0; how long the latch is kept after the latest arrival
-- ARGV[4] channel    where those who wait listen
--
-- Returns {"counted", left}       the party has arrived; left: how many are missing. 0: the latch is open
--         {"again", left}         it had arrived before
--         {"excess"}              the latch is open without it: others have arrived in its place
--         {"disagrees", count}    others say that there are so many parties; nothing was changed
-- Replay  "again"; nothing is counted twice
-- Writes  latch
--#include broadcast latch
local latch = KEYS[1]
local party, count, kept_ms, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local theirs, arrived = latch_read(latch)
if theirs and theirs ~= count then return { 'disagrees', theirs } end
if redis.call('ZSCORE', latch, ':' .. party) then
  redis.call('PEXPIRE', latch, kept_ms)
  return { 'again', count - #arrived }
end
if #arrived >= count then return { 'excess' } end
redis.call('ZADD', latch, '-' .. count, '')
redis.call('ZADD', latch, #arrived + 1, ':' .. party)
redis.call('PEXPIRE', latch, kept_ms)
local left = count - #arrived - 1
if left == 0 then broadcast(channel) end
return { 'counted', left }
