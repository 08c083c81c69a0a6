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

-- The fencing token in the member that the readers of a set share, or nil.
local function member_fence(member)
  return string.match(member, '^f(%d+)$')
end

-- Writes: the key lives no longer than its longest hold, because another library sees only that there is a key. False when
-- no hold is left: then it goes.
local function member_last(lock, now_us)
  local longest = redis.call('ZREVRANGE', lock, '0', '0', 'WITHSCORES')
  if not longest[1] or member_fence(longest[1]) then
    redis.call('DEL', lock)
    return false
  end
  redis.call('PEXPIRE', lock, math.max(1, math.ceil((longest[2] - now_us) / 1000) + 1))
  return true
end

-- Writes a later end of a hold that is there. First what memory pressure does not refuse: then it refuses nothing that
-- follows.
local function member_extend(lock, member, until_us, ttl_ms)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl_ms + 1))
  redis.call('ZADD', lock, 'XX', whole(until_us), member)
  if member_mark(member) then redis.call('ZADD', lock, 'XX', whole(until_us), 'u') end
end
