-- log/note: write entries of the event log, each once. No lock is read or changed.
--
-- KEYS[1] events     sorted set; entry -> the server's time in microseconds when it was written
-- ARGV[1] most       integer > 0; the newest so many are kept
-- ARGV[2] kept_ms    integer > 0; for how long after the latest entry
-- ARGV[…] entries    the entries, each a JSON text; at most 8
--
-- Returns {"noted"}    they are in the log, or have been before
-- Replay  the same answer; an entry that is there keeps its time
-- Writes  events
--#include prelude
local events = KEYS[1]
local most, kept_ms = tonumber(ARGV[1]), ARGV[2]

local REMOVED_MAX = 8 -- as many as one call adds at most

local now_us = string.format('%.0f', clock_us())
for at = 3, #ARGV do
  if not redis.call('ZSCORE', events, ARGV[at]) then redis.call('ZADD', events, now_us, ARGV[at]) end
end
local beyond = math.min(redis.call('ZCARD', events) - most, REMOVED_MAX)
if beyond > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', events, '0', tostring(beyond - 1))) do
    redis.call('ZREM', events, oldest)
  end
end
redis.call('PEXPIRE', events, kept_ms)
return { 'noted' }
