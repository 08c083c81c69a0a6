-- quorum/vote: one server's vote for an acquisition: the mutex if it is free, under a fencing token that is proposed.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token; the vote ends with this key's PTTL
-- KEYS[2] fence      string; 'first:last' of the latest grant, kept 7 days (lua/proposal.lua)
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

local FENCED_AT, FENCED = 23, 46 -- of a token (lua/prelude.lua)
local TIME_LENGTH, FENCE_LENGTH, SAME_10000_S = 16, 33, 6 -- of a fence (lua/fence.lua)
local FENCE_KEPT_MS, FENCE_END = '614800000', 9007199253692416

local time = redis.call('TIME')
local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))

-- The plain case: the lock is free, its caller has not waited, and the proposal is larger than the one number of the
-- fence. A refusal of the fence is found before any client knows of the lock.
local taken = caller == '' and redis.call('SET', lock, token, 'PX', ttl_ms, 'NX')
if taken then
  if string.byte(token, FENCED_AT) ~= FENCED then return { 'accepted', now } end
  local before = redis.pcall('SET', fence, proposed .. ':' .. proposed, 'KEEPTTL', 'GET')
  if type(before) == 'table' then
    redis.call('DEL', lock)
    return string.find(before.err, 'WRONGTYPE', 1, true) and { err = 'DAMAGED fence ' .. fence } or before
  end
  local last = before and string.match(before, '^%d+:(%d+)$')
  local larger = not before
    or last and #last == TIME_LENGTH and #before == FENCE_LENGTH and #proposed == TIME_LENGTH
      and before < proposed and last < proposed
  local wish = tonumber(proposed)
  if larger and wish >= now - behind_us and wish < FENCE_END then
    if not before or string.sub(before, 1, SAME_10000_S) ~= string.sub(proposed, 1, SAME_10000_S) then
      redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
    end
    return { 'accepted', now }
  end
  if before then
    redis.call('SET', fence, before, 'KEEPTTL')
  else
    redis.call('DEL', fence)
  end
end

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
if is_fenced(token) then
  local before, other = of_type(redis.pcall('GET', fence))
  accepted, least = proposal_holds(before, tonumber(proposed), now_us, behind_us)
  if other or accepted == nil then
    if taken then redis.call('DEL', lock) end
    return fence_damaged(fence)
  end
  local refusal = accepted and proposal_write(fence, before, proposed)
  if refusal then return refusal end
end
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  redis.call('SET', lock, token, 'PX', ttl_ms)
elseif redis.call('PTTL', lock) < tonumber(ttl_ms) then
  redis.call('PEXPIRE', lock, ttl_ms)
end
if accepted then return { 'accepted', whole(now_us) } end
return { 'granted', whole(least), whole(now_us) }
