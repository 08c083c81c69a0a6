-- log/read: read the newest entries of the event log. Changes nothing.
--
-- KEYS[1] events     sorted set; entry -> the server's time in microseconds when it was written
-- ARGV[1] back_ms    integer >= 0; how old an entry may be
-- ARGV[2] most       integer > 0; how many are read at most
--
-- Returns {"entries", entries}    the newest first: each entry, cut off where it is longer than those of ours, and its time
-- Replay  the same answer
-- Writes  nothing
--#include prelude
local events = KEYS[1]
local back_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])

local ENTRY_MAX = 2048 -- bytes; ours have half of it
local READ_MAX = 2097152 -- bytes that are read, because a stranger's entries may be of any length
local STEP = 10

local entries, seen = {}, 0
local now_ms = math.floor(clock_us() / 1000)
for last = -1, -most, -STEP do
  local page = redis.call('ZRANGE', events, tostring(last - STEP + 1), tostring(last), 'WITHSCORES')
  for at = #page - 1, 1, -2 do
    -- A time that no entry of ours has is the nearest possible.
    local at_ms = math.max(0, math.min(math.floor((tonumber(page[at + 1]) or 0) / 1000), now_ms))
    if at_ms < now_ms - back_ms or #entries >= 2 * most or seen > READ_MAX then return { 'entries', entries } end
    seen = seen + #page[at]
    entries[#entries + 1] = string.sub(page[at], 1, ENTRY_MAX)
    entries[#entries + 1] = string.format('%.0f', at_ms)
  end
  if #page < 2 * STEP then break end
end
return { 'entries', entries }
