-- member: a hold as a member of the sorted set that is the key of a shared lock (lua/holds.lua).
local HOLD_START = 32 -- in a member: what is behind the token

-- The member of a hold of this kind: 's', 'u' or 'x', or 'w' and how many permits; text behind a space counts for nothing.
local function member_of(kind, token)
  if kind == 's' then return token end
  if kind == 'u' or kind == 'x' then return token .. 'u' end
  return token .. string.match(kind, '^w(%d+)')
end

-- The member beside that of an upgradable reader, or nil.
local function member_mark(member)
  return string.sub(member, HOLD_START) == 'u' and 'u' or nil
end

-- Writes a later end of a hold that is there. First what memory pressure does not refuse: then it refuses nothing that
-- follows.
local function member_extend(lock, member, until_us, ttl_ms)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl_ms + 1))
  redis.call('ZADD', lock, 'XX', whole(until_us), member)
  if member_mark(member) then redis.call('ZADD', lock, 'XX', whole(until_us), 'u') end
end
