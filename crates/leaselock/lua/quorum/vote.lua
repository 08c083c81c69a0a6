-- quorum/vote: one server's vote for an acquisition: the mutex if it is free, under a fencing token that is proposed.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token; the vote ends with this key's PTTL
-- KEYS[2] fence      string; 'first:last' of the latest grant, kept 7 days (lua/fence.lua)
-- KEYS[3] callers    sorted set; who asks to be told of a release, in the order of arrival
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when it wants a fencing token
-- ARGV[2] ttl_ms     integer > 0
-- ARGV[3] proposed   the fencing token that the caller proposes; '0' when it knows none
-- ARGV[4] behind_us  by how much the proposal may be behind this server's clock
-- ARGV[5] caller     'token channel' of whoever is to be told when it is busy; '' tells nobody
--
-- Returns {"accepted", time_us}                 held under `token` until ttl_ms from time_us, and the proposal holds here
--                                               or none was wanted
--         {"granted", least, time_us}           held as well, but the proposal does not hold: `least` would
--         {"busy", pttl_ms, holder, time_us}    held by another for so long (-1: no end is set), of this client ('' when
--                                               foreign); the caller will be told
-- Replay  a token that holds holds on, with its time made whole again; the proposal is refused, even where it was
--         accepted, because nobody can tell any more whose number the latest one is
-- Writes  lock, fence, callers
local lock, fence, callers = KEYS[1], KEYS[2], KEYS[3]
local token, ttl_ms, proposed, behind_us, caller = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]

local now_us = clock_us()
local held = redis.call('GET', lock)
if held and held ~= token then
  if caller ~= '' then
    redis.call('ZADD', callers, 'NX', whole(now_us), caller) -- NX: it keeps its place
    redis.call('PEXPIRE', callers, '60000') -- everybody asks again sooner
  end
  return { 'busy', redis.call('PTTL', lock), client_of(held), whole(now_us) }
end

local wish, least, accepted = tonumber(proposed), 0, true
if is_fenced(token) then
  local _, last = fence_read(fence)
  accepted = wish > last and wish >= now_us - behind_us
  least = math.max(last + 1, now_us)
end
if caller ~= '' then redis.call('ZREM', callers, caller) end
if accepted and is_fenced(token) then redis.call('SET', fence, proposed .. ':' .. proposed, 'PX', FENCE_KEPT_MS) end
if not held then
  redis.call('SET', lock, token, 'PX', ttl_ms)
elseif redis.call('PTTL', lock) < ttl_ms then
  redis.call('PEXPIRE', lock, ttl_ms)
end
if accepted then return { 'accepted', whole(now_us) } end
return { 'granted', whole(least), whole(now_us) }
