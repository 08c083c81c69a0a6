-- quorum/vote: one server's vote for an acquisition: the mutex if it is free, under a fencing token that is proposed.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token; the vote ends with this key's PTTL
-- KEYS[2] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[3] callers    sorted set; callers to wake on a release, in the order of arrival
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when it wants a fencing token
-- ARGV[2] ttl_ms     integer > 0
-- ARGV[3] proposed   the fencing token that the caller proposes; '0' when it knows none
-- ARGV[4] behind_us  how far the proposal may be behind this server's clock
-- ARGV[5] caller     'token channel' of the caller to wake when the lock is busy; '' for none
--
-- Returns {"accepted", time_us}                 held under `token` until ttl_ms from time_us, and the proposal holds here
--                                               or none was wanted
--         {"granted", least, time_us}           held as well, but the proposal does not hold: `least` would
--         {"busy", pttl_ms, holder, time_us}    held by another for so long (-1: no expiry is set), of this client (''
--                                               when foreign); the caller will be woken
--         the error DAMAGED fence, with its key         no vote of ours wrote this value; the token has no vote here
-- Replay  a token that holds still holds, with its ttl renewed; the proposal is refused, even where it was accepted,
--         because the owner of the latest number is unknown
-- Writes  lock, fence, callers
local lock, fence, callers = KEYS[1], KEYS[2], KEYS[3]
local token, ttl_ms, proposed, behind_us, caller = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local time, taken = redis.call('TIME'), nil
--#plain
-- The head: the lock is free, its caller has not waited, and the proposal holds. Of the lines below these are
-- proposal_accept (lua/proposal.lua) and SET, the other way round: a vote without its number is taken back there.
taken = caller == '' and redis.call('SET', lock, token, 'PX', ttl_ms, 'NX')
if taken then
--#inline now
  if not string.find(token, '.', 1, true) then return { 'accepted', now } end
  if #proposed == #now and tonumber(proposed) >= now - behind_us and proposed < '9' then
    local id = string.sub(proposed, 1, -4) .. '-' .. tonumber(string.sub(proposed, -3))
    local answer = redis.pcall('XADD', fence, 'MAXLEN', '0', id, '-', '-')
    if not answer.err then
      redis.call('PEXPIRE', fence, '93600000')
      return { 'accepted', now }
    end
  end
end
--#end

--#include prelude fence proposal
-- A token that holds may have taken the lock just now.
local now_us = clock_of(time)
local held = redis.call('GET', lock)
if held and held ~= token then
  if caller ~= '' then
    -- NX: it keeps its position. With another type the caller loses its wake-up and still gets the answer.
    redis.pcall('ZADD', callers, 'NX', whole(now_us), caller)
    redis.pcall('PEXPIRE', callers, '60000') -- every caller polls sooner
  end
  return { 'busy', redis.call('PTTL', lock), client_of(held), whole(now_us) }
end

local accepted, least = true, 0
if is_fenced(token) then accepted, least = proposal_accept(fence, proposed, now_us, behind_us) end
if accepted == nil then
  if taken then redis.call('DEL', lock) end
  return least
end
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  redis.call('SET', lock, token, 'PX', ttl_ms)
elseif redis.call('PTTL', lock) < tonumber(ttl_ms) then
  redis.call('PEXPIRE', lock, ttl_ms)
end
if accepted then return { 'accepted', whole(now_us) } end
return { 'granted', whole(least), whole(now_us) }
