-- quorum/withdraw: give a vote back, as its holder or as one who lost, and tell the first who asked to be told.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] callers    sorted set; who asks to be told of a release, in the order of arrival
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] tell       '1' tells the first who is there, by its token on its channel: a reason to look and no grant
-- ARGV[3] caller     'token channel' of whoever need not be told any more; '' for nobody
--
-- Returns {"released"}    it was held, and is free
--         {"expired"}     nothing was there
--         {"taken"}       another holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, callers
local lock, callers = KEYS[1], KEYS[2]
local token, tell, caller = ARGV[1], ARGV[2], ARGV[3]

if caller ~= '' then redis.call('ZREM', callers, caller) end
local held = redis.call('GET', lock)
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
redis.call('DEL', lock)

-- Whoever is told or is not there leaves: it asks again when it looks, and nobody is told in vain twice.
local waiting = tell == '1' and redis.call('ZRANGE', callers, '0', '15') or {}
local channel, whose
for i = 1, #waiting do
  whose, channel = string.match(waiting[i], '^(%S+) (.+)$')
  redis.call('ZREM', callers, waiting[i])
  -- PUBLISH would count a monitor of all channels too.
  local heard = channel and redis.pcall('PUBSUB', 'NUMSUB', channel)
  if heard and (heard.err or tonumber(heard[2]) > 0) then break end
  channel = nil
end
if channel then redis.pcall('PUBLISH', channel, whose) end
return { 'released' }
