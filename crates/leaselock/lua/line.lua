-- line: who waits, in which order, and handing a free lock to the first whose process is there.
-- `line` is a sorted set: score = -priority, member = ticket (16 digits) .. token, so it is first in, first out
-- within a priority. `waiters` is a hash: token -> 'ttl_ms fencing looked_ms ticket priority range channel';
-- `range` is how many fencing tokens its grant reserves, for the tasks that share the place.
local LINE_KEPT_MS = '60000' -- every waiter looks at least each 15 s and renews this
local GONE_AFTER_MS = 45000 -- three looks missed
local HEAD_MAX = 128 -- how far one call looks along the line

-- Taken apart, and left as text: what the grant of one waiter needs; nil for no entry or one that is not ours.
local function line_entry(token, entry)
  local ttl, fencing, looked, ticket, priority, range, channel =
    string.match(entry or '', '^(%d+) (%d) (%d+) (%d+) (-?%d+) (%d+) (.*)$')
  if not ttl then return nil end
  return { token = token, entry = entry, member = ticket .. token, ttl_ms = ttl, fencing = fencing,
    looked_ms = looked, ticket = ticket, priority = priority, range = range, channel = channel }
end

-- Reads only: which of these channels has a receiver. Nobody, when the server will not say.
local function line_present(channels)
  local present = {}
  if #channels == 0 then return present end
  local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  if counts.err then return present end
  for i = 1, #counts, 2 do
    present[counts[i]] = tonumber(counts[i + 1]) > 0
  end
  return present
end

-- Reads only: the waiters from place `first` to `last`, each with its entry taken apart, and the channels with
-- somebody there. A member without an entry has no channel and was last seen never.
local function line_read(line, waiters, first, last)
  local members = redis.call('ZRANGE', line, first, last)
  if #members == 0 then return members, {} end
  local places, tokens, channels = {}, {}, {}
  for i, member in ipairs(members) do
    tokens[i] = string.sub(member, 17)
  end
  local entries = redis.call('HMGET', waiters, unpack(tokens))
  for i, member in ipairs(members) do
    local place = line_entry(tokens[i], entries[i]) or { token = tokens[i], looked_ms = 0, channel = '' }
    place.member = member
    places[i] = place
    if place.channel ~= '' then channels[#channels + 1] = place.channel end
  end
  return places, line_present(channels)
end

-- Reads only: the first in line, when it is there; nil when it takes more to say who is next.
local function line_head(waiters, member)
  local token = string.sub(member, 17)
  local place = line_entry(token, redis.call('HGET', waiters, token))
  if not place or place.member ~= member or place.channel == '' then return nil end
  local counts = redis.pcall('PUBSUB', 'NUMSUB', place.channel)
  return not counts.err and tonumber(counts[2]) > 0 and place or nil
end

-- Reads only: the first waiter who is there (`asking` is: it is the caller), and those who are surely gone.
local function line_pick(line, waiters, now_ms, asking)
  local gone, first, last = {}, 0, 0 -- the head alone first: mostly it is there
  while first < HEAD_MAX do
    local places, present = line_read(line, waiters, first, last)
    for _, place in ipairs(places) do
      if place.entry and (place.token == asking or present[place.channel]) then
        return place, gone
      elseif now_ms - tonumber(place.looked_ms) > GONE_AFTER_MS then
        gone[#gone + 1] = place
      end
    end
    if #places <= last - first then return nil, gone end
    first, last = last + 1, HEAD_MAX - 1
  end
  return nil, gone
end

local function line_drop(line, waiters, place)
  redis.call('ZREM', line, place.member)
  redis.call('HDEL', waiters, place.token)
end

local function line_keep(line, waiters)
  redis.call('PEXPIRE', line, LINE_KEPT_MS)
  redis.call('PEXPIRE', waiters, LINE_KEPT_MS)
end

-- Writes: the lock goes to `place`, or is deleted when there is none. The message is last and says what is already
-- written: 'grant', the first reserved fence and how many (the first is 0 without fencing), server time, ttl, whether others are
-- left in line, token. When it is refused, the grant is taken back and the waiter stays in line. True when handed over.
-- `others`: whether others are left, when that is known ('1', '0').
local function line_hand_over(lock, line, waiters, fence, place, last_fence, now_us, others)
  if not place then
    redis.call('DEL', lock)
    return false
  end
  if others == '0' then
    redis.call('DEL', line, waiters)
  else
    line_drop(line, waiters, place)
    others = others or redis.call('ZCARD', line) > 0 and '1' or '0'
  end
  redis.call('SET', lock, place.token, 'PX', place.ttl_ms)
  local minted = place.fencing == '1' and fence_mint(fence, last_fence, now_us, tonumber(place.range)) or '0'
  local message = 'grant ' .. minted .. ' ' .. place.range .. ' ' .. whole(now_us) .. ' ' .. place.ttl_ms .. ' '
    .. others .. ' ' .. place.token
  local sent = redis.pcall('PUBLISH', place.channel, message)
  if type(sent) == 'table' and sent.err then
    redis.call('DEL', lock)
    if place.fencing == '1' then fence_lower(fence, tonumber(minted), tonumber(minted)) end
    redis.call('ZADD', line, 0 - tonumber(place.priority), place.member)
    redis.call('HSET', waiters, place.token, place.entry)
    line_keep(line, waiters)
    return false
  end
  return true
end

-- Reads first, then writes: gives up `lock` to whoever is next. `used` is the highest number that its holder used of
-- those that were reserved; 0 when all are to count as used.
local function line_pass_on(lock, line, waiters, fence, used, now_us)
  local first_fence, last_fence = fence_read(fence)
  local unused = first_fence <= used and used < last_fence
  if unused then last_fence = used end
  local members = redis.call('ZRANGE', line, '0', '1')
  local others = members[2] and '1' or '0'
  local place = members[1] and line_head(waiters, members[1])
  if members[1] and not place then
    local gone
    place, gone = line_pick(line, waiters, math.floor(now_us / 1000), '')
    for _, absent in ipairs(gone) do
      line_drop(line, waiters, absent)
    end
    others = nil
  end
  local handed_over = line_hand_over(lock, line, waiters, fence, place, last_fence, now_us, others)
  -- A grant with numbers of its own has taken the unused ones.
  if unused and not (place and place.fencing == '1') then fence_lower(fence, first_fence, used) end
  return handed_over
end
