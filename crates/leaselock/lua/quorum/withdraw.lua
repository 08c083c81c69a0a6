-- quorum/withdraw: give a vote back, as its holder or as one who lost, and tell the first who asked to be told.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] callers    sorted set; who asks to be told of a release, in the order of arrival (lua/callers.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] tell       '1' tells the first caller who is there: when it was held, or when a caller leaves a free lock
-- ARGV[3] caller     'token channel' of whoever need not be told any more; '' for nobody
--
-- Returns {"released"}    it was held, and is free
--         {"expired"}     nothing was there
--         {"taken"}       another holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, callers
local lock, callers = KEYS[1], KEYS[2]
local token, tell, caller = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('GET', lock)

-- The plain case: a holder gives it back, and nobody is to be told.
if caller == '' and held == token and (tell ~= '1' or redis.call('EXISTS', callers) == 0) then
  redis.call('DEL', lock)
  return { 'released' }
end

--#include callers
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  -- Whoever was told of a release and goes away before it has voted leaves that to the next.
  if tell == '1' and caller ~= '' then callers_tell(callers) end
  return { 'expired' }
end
if held ~= token then return { 'taken' } end
redis.call('DEL', lock)
if tell == '1' then callers_tell(callers) end
return { 'released' }
