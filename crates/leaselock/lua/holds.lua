-- holds: what is held under a name, and which request fits beside it.
-- The lock's key says it all, so extending a hold touches no other key:
--   no key      it is free
--   string      the token of the exclusive holder; its lease is the key's PTTL
--   sorted set  hold -> its end, in server microseconds. A hold is a token and, behind it, how the token holds: nothing
--               for a reader; 'u' for a reader that may become exclusive, with the member 'u' beside it, so that every
--               script sees that there is one; digits for so many permits. Readers and permits are never in one set.
--               Before all holds, with the score '-inf', lies 'f' and the fencing token that all of its readers share.
--               The key expires with the longest hold.
-- The kind of a request, in a queue entry too: digits ask to be exclusive, and say how many fencing tokens the grant
-- reserves; 's' reads; 'u' reads and may become exclusive; 'x' does so now; 'w' and digits ask for so many permits.
-- `usage` is a hash, for permits only: 'sum' is 'used count', counted anew whenever the set has another count;
-- 'permits' is how many there are, 'pinned' that an operator has said so; hold -> its fencing token. A script without
-- `usage` cannot judge permits.
local CLEARED_MAX = '512' -- expired holds that one call removes
local USAGE_KEPT_MS = '614800000' -- how long the number of permits is kept after the latest request
local ENDS_MIN = '0' -- the least end of a hold: above the score of the readers' fencing token

local function holds_weight(kind)
  return string.byte(kind) == 119 and tonumber(string.sub(kind, 2)) -- 'w'
end

-- Whether a member of a set is one of ours: a hold, the mark of an upgradable reader, or a fencing token.
local function holds_is_ours(member)
  local kind = string.sub(member or '', HOLD_START)
  return member == 'u' or member and member_fence(member) or client_of(string.sub(member or '', 1, HOLD_START - 1)) ~= ''
    and (kind == '' or kind == 'u' or string.find(kind, '^%d+$') ~= nil)
end

-- Removes the holds that have expired, and reads the others. Another program's set is left as it is.
local function holds_read_set(h)
  local over = redis.pcall('ZRANGEBYSCORE', h.lock, ENDS_MIN, '(' .. whole(h.now_us), 'LIMIT', '0', CLEARED_MAX)
  local first = over.err and {} or redis.call('ZRANGE', h.lock, '0', '1')
  if over.err or not holds_is_ours(first[1]) then
    h.exclusive, h.strange = '', true -- a key of another type, or another program's set
    return
  end
  if over[1] then
    redis.call('ZREM', h.lock, unpack(over))
    if h.usage then redis.pcall('HDEL', h.usage, unpack(over)) end
    first = redis.call('ZRANGE', h.lock, '0', '1')
  end
  h.shared = member_fence(first[1] or '')
  local one = first[h.shared and 2 or 1]
  if not one then
    redis.call('DEL', h.lock)
    h.shared = nil
    return
  end
  h.upgradable = redis.call('ZSCORE', h.lock, 'u') and true
  h.count = redis.call('ZCARD', h.lock) - (h.upgradable and 1 or 0) - (h.shared and 1 or 0)
  h.weighted = string.find(one, '^%d+$', HOLD_START) and true
  if not h.weighted then h.readers = h.count - (h.upgradable and 1 or 0) end
end

-- How many permits there are, 0 when no one has said so since `usage` was lost, and how many are used. `wanted`: how
-- many there are by the caller's word. With another type under `usage` this call cannot judge permits.
local function holds_read_usage(h, wanted)
  local kept, other = of_type(redis.pcall('HMGET', h.usage, 'sum', 'permits', 'pinned'))
  if other then h.usage, kept = nil, {} end
  local used, count = string.match(kept[1] or '', '^(%d+) (%d+)$')
  if h.weighted and tonumber(count) == h.count then
    h.used = tonumber(used)
  elseif h.weighted then
    for _, member in ipairs(redis.call('ZRANGE', h.lock, '0', '-1')) do
      h.used = h.used + tonumber(string.sub(member, HOLD_START))
    end
  end
  -- Fields of holds that ended without a script, as all of them do with the key, would stay for ever.
  if kept[1] and tonumber(count) ~= h.count and redis.call('HLEN', h.usage) > h.count + 3 then
    local live = {}
    for _, member in ipairs(h.weighted and redis.call('ZRANGE', h.lock, '0', '-1') or {}) do
      live[member] = redis.call('HGET', h.usage, member) or nil
    end
    redis.call('DEL', h.usage)
    for member, number in pairs(live) do
      redis.call('HSET', h.usage, member, number)
    end
    if kept[2] then
      redis.call('HSET', h.usage, 'permits', kept[2])
      if kept[3] then redis.call('HSET', h.usage, 'pinned', '1') end
      redis.call('PEXPIRE', h.usage, USAGE_KEPT_MS) -- not every caller writes more of it
    end
    kept[1] = false
  end
  h.permits, h.kept = not kept[3] and wanted or tonumber(kept[2]) or 0, kept
end

-- What is held; `usage` and `wanted` for permits only.
local function holds_read(lock, fence, now_us, usage, wanted)
  local h = { lock = lock, fence = fence, usage = usage, now_us = now_us, readers = 0, used = 0, count = 0 }
  local held, is_set = of_type(redis.pcall('GET', lock))
  h.exclusive = held or nil
  if is_set then holds_read_set(h) end
  if usage then holds_read_usage(h, wanted) end
  return h
end

-- Whether the token holds in this way; the end of its hold, or true for an exclusive one.
local function holds_has(h, kind, token)
  if string.find(kind, '^%d') then return h.exclusive == token end
  return h.count > 0 and tonumber(redis.call('ZSCORE', h.lock, member_of(kind, token)) or nil)
end

-- How the token holds a name that readers may hold: '1', 'u' or 's'; nil: it does not. An upgrade or a downgrade whose
-- answer was lost has changed that without the client's knowledge.
local function holds_how(h, token)
  if h.exclusive == token then return '1' end
  return holds_has(h, 'u', token) and 'u' or holds_has(h, 's', token) and 's' or nil
end

-- Whether a request of this kind fits beside what is held; nil when this call cannot judge it. For an upgrade: beside its
-- own read, which the caller has seen.
local function holds_fit(h, kind)
  if kind == 'x' then return h.readers == 0 and h.upgradable == true end
  if h.exclusive then return false end
  local weight = holds_weight(kind)
  if weight then
    if h.readers > 0 or h.upgradable then return false end
    if not h.usage or h.permits == 0 then return nil end
    return h.used + weight <= h.permits
  end
  if h.weighted then return false end
  if kind == 's' then return true end
  if h.upgradable then return false end
  if kind == 'u' then return true end
  if string.find(kind, '^%d+$') then return h.readers == 0 end
  return nil
end

-- Whether no request of any kind fits, so that the waiters behind the last grant need not be read.
local function holds_full(h)
  return h.exclusive or h.permits and h.permits > 0 and h.used >= h.permits
end

-- Counts a request as held, for those behind it.
local function holds_reserve(h, kind, token)
  local weight = holds_weight(kind)
  if weight then
    h.used, h.weighted = h.used + weight, true
  elseif kind == 's' then
    h.readers = h.readers + 1
  elseif kind == 'u' then
    h.upgradable = true
  else
    h.exclusive, h.upgradable = token, false
  end
end

-- Writes a hold of the set, for `ttl_ms` from now.
local function holds_put(h, member, ttl_ms)
  local ends = whole(h.now_us + ttl_ms * 1000)
  local marked = member_mark(member) and { ends, 'u' } or {}
  if h.shared then marked[#marked + 1], marked[#marked + 2] = '-inf', 'f' .. h.shared end
  redis.call('ZADD', h.lock, ends, member, unpack(marked))
  if redis.call('PTTL', h.lock) <= ttl_ms then redis.call('PEXPIRE', h.lock, ttl_ms + 1) end
end

-- Gives a hold back, and counts it as free. First come writes that memory pressure does not refuse. The key lives no
-- longer than its longest hold, because another library sees only that there is a key.
local function holds_remove(h, kind, token)
  if string.find(kind, '^%d') or kind == 'x' then
    redis.call('DEL', h.lock)
    h.exclusive, h.shared, h.upgradable, h.weighted, h.readers, h.used, h.count = nil, nil, false, false, 0, 0, 0
    return
  end
  local member, weight = member_of(kind, token), holds_weight(kind)
  redis.call('ZREM', h.lock, member)
  if weight then
    h.used = h.used - weight
    h.weighted = h.used > 0
    if h.usage then redis.call('HDEL', h.usage, member) end
  elseif kind == 'u' then
    redis.call('ZREM', h.lock, 'u')
    h.upgradable = false
  else
    h.readers = h.readers - 1
  end
  if not member_last(h.lock, h.now_us) then h.shared = nil end
end

-- Writes down what was counted, if it has changed; last, and for permits only.
local function holds_close(h)
  if not h.usage then return end -- it is damaged
  local sum = whole(h.used) .. ' ' .. whole(h.weighted and redis.call('ZCARD', h.lock) or 0)
  local permits = h.permits > 0 and whole(h.permits)
  if sum == (h.kept[1] or '0 0') and permits == (h.kept[2] or false) then return end
  redis.call('HSET', h.usage, 'sum', sum)
  if permits then redis.call('HSET', h.usage, 'permits', permits) end
  redis.call('PEXPIRE', h.usage, USAGE_KEPT_MS)
end

local function holds_until(h, score)
  return math.max(1, math.ceil((tonumber(score) - h.now_us) / 1000))
end

-- In how many milliseconds the request would fit if no holder renewed; -1: it would not. 1 when it is free, and reserved
-- for another waiter.
local function holds_rest_ms(h, kind, token)
  local weight = holds_weight(kind)
  if h.exclusive then return redis.call('PTTL', h.lock) end
  if h.count == 0 then return 1 end
  if weight and h.weighted then
    local left, holds = h.permits - h.used, redis.call('ZRANGE', h.lock, '0', '511', 'WITHSCORES')
    for i = 1, #holds, 2 do
      left = left + tonumber(string.sub(holds[i], HOLD_START))
      if left >= weight then return holds_until(h, holds[i + 1]) end
    end
    return weight > h.permits and -1 or 1
  end
  if kind == 'u' and h.upgradable then return holds_until(h, redis.call('ZSCORE', h.lock, 'u')) end
  local longest = redis.call('ZREVRANGE', h.lock, '0', '2', 'WITHSCORES')
  for i = 1, #longest, 2 do
    local own = kind == 'x' and (longest[i] == 'u' or longest[i] == token .. 'u' or member_fence(longest[i]))
    if not own then return holds_until(h, longest[i + 1]) end
  end
  return 1
end

-- A client that holds it, by another hold than that of `token`; '' when there is none, or it is another library's.
local function holds_holder(h, token)
  if h.exclusive then return client_of(h.exclusive) end
  for _, member in ipairs(h.count > 0 and redis.call('ZRANGE', h.lock, '0', '3') or {}) do
    local its = string.sub(member, 1, HOLD_START - 1)
    if member ~= 'u' and not member_fence(member) and its ~= token then return client_of(its) end
  end
  return ''
end
