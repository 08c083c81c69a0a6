-- quorum/withdraw: withdraw a vote, as its holder or as a loser, and wake the first caller that is registered.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] callers    sorted set; callers to wake on a release, in the order of arrival (lua/callers.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] tell       '1' wakes the first caller that is alive: when it was held, or when a caller leaves a free lock
-- ARGV[3] caller     'token channel' of a caller that need not be woken any more; '' for none
--
-- Returns {"released"}    it was held, and is free
--         {"expired"}     there was no lock
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, callers
local lock, callers = KEYS[1], KEYS[2]
local token, tell, caller = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('GET', lock)

--#plain
-- The head: a holder withdraws, and there is no caller to wake. Of the lines below only DEL has an effect then.
if caller == '' and held == token and (tell ~= '1' or redis.call('EXISTS', callers) == 0) then
  redis.call('DEL', lock)
  return { 'released' }
end
--#end

--#include callers
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  -- A caller that was woken and is dropped before it has voted leaves that to the next one.
  if tell == '1' and caller ~= '' then callers_tell(callers) end
  return { 'expired' }
end
--#inline broken
if held ~= token and held ~= broken then return { 'taken' } end
redis.call('DEL', lock)
if tell == '1' then callers_tell(callers) end
return { 'released' }
