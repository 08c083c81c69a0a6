-- line: who waits, in which order, and handing a free lock to the first whose process is there.
-- `queue` is a sorted set: score = -priority, so it is first in, first out within a priority, because a member begins
-- with its ticket. A member holds all that a grant needs: ticket (16 digits) .. token (31 characters) .. server time of
-- the latest poll (16 digits) .. ' ' .. 'priority passed_ms range channel', as the waiter asked for it; `range` is how
-- many fencing tokens its grant reserves, for the tasks that share the place.
-- `waiters` is a hash: token -> member, so that whoever polls or leaves finds its own. Without a queue it means nothing.
local LINE_KEPT_MS = '60000' -- every waiter polls at least each 15 s and renews this
local GONE_AFTER_US = 45000000 -- three polls missed
local HEAD_MAX = 128 -- how far one call looks along the queue

-- What a waiter asked for, taken apart and left as text. One of another version has no channel and never polled.
local function line_place(member)
  local looked_us, priority, passed_ms, range, channel =
    string.match(member, '^(%d+) (-?%d+) (%d+) (%d+) (.*)$', 48)
  return { member = member, token = string.sub(member, 17, 47), looked_us = looked_us or '0',
    priority = priority or '0', passed_ms = passed_ms, range = range, channel = channel or '' }
end

local function line_score(priority)
  if priority == '0' then return '0' end
  return string.sub(priority, 1, 1) == '-' and string.sub(priority, 2) or '-' .. priority
end

-- Another type lies under the key of `queue` or of `waiters`, so nobody can tell who waits.
local function line_damaged(key)
  return { err = 'DAMAGED queue ' .. key }
end

-- Reads only: the member of a waiter that has one; nil and true when `waiters` is damaged.
local function line_known(waiters, token)
  local member, other = of_type(redis.pcall('HGET', waiters, token))
  if other then return nil, true end
  return member and string.sub(member, 17, 47) == token and string.match(member, '^%d+') and member
end

-- In a cluster a channel may belong to the slot, so that its messages stay with the node: its end says so.
local function line_is_sharded(channel)
  return string.sub(channel, -2) == ':s'
end

local function line_tell(channel, message)
  if line_is_sharded(channel) then return redis.pcall('SPUBLISH', channel, message) end
  return redis.pcall('PUBLISH', channel, message)
end

-- Reads only: which of these channels has a receiver. Nobody, when the server will not say.
local function line_present(channels)
  local present, sharded, plain = {}, {}, {}
  for _, channel in ipairs(channels) do
    local kind = line_is_sharded(channel) and sharded or plain
    kind[#kind + 1] = channel
  end
  for _, kind in ipairs({ sharded, plain }) do
    local counts = kind[1] and redis.pcall('PUBSUB', kind == sharded and 'SHARDNUMSUB' or 'NUMSUB', unpack(kind)) or {}
    for i = 1, #counts, 2 do -- an error has none
      present[counts[i]] = tonumber(counts[i + 1]) > 0
    end
  end
  return present
end

-- Reads only: the waiters from place `first` to `last`, taken apart; none and true when the queue is damaged.
local function line_read(queue, first, last)
  local places, members, other = {}, of_type(redis.pcall('ZRANGE', queue, first, last))
  for i, member in ipairs(members or {}) do
    places[i] = line_place(member)
  end
  return places, other
end

-- Writes nothing: tells the first waiter, by its token alone, which is a reason to poll. It may not be there, or we may
-- not say so; then it polls by itself.
local function line_tell_first(queue)
  local first = line_read(queue, 0, 0)[1]
  if first and first.channel ~= '' then line_tell(first.channel, first.token) end
end

-- Reads only: the first waiter who is there (`asking` is: it is the caller), and those who are surely gone. A member
-- without an entry in `waiters` is of one who could not be found any more when it left. `unfenced` leaves out those who
-- want a fencing token. Nobody, and true, when `waiters` is damaged.
local function line_pick(queue, waiters, now_us, asking, unfenced)
  local gone, first, last = {}, 0, 0 -- the head alone first: mostly it is there
  while first < HEAD_MAX do
    local places, channels = line_read(queue, first, last), {}
    for _, place in ipairs(places) do
      if place.channel ~= '' then channels[#channels + 1] = place.channel end
    end
    local present = line_present(channels)
    for _, place in ipairs(places) do
      local there = place.passed_ms and (place.token == asking or present[place.channel])
      local passed_over = unfenced and is_fenced(place.token)
      local known, other = nil, nil
      if there and not passed_over then known, other = of_type(redis.pcall('HGET', waiters, place.token)) end
      if other then return nil, {}, true end
      if known then return place, gone end
      if there and not passed_over or now_us - tonumber(place.looked_us) > GONE_AFTER_US then gone[#gone + 1] = place end
    end
    if #places <= last - first then return nil, gone end
    first, last = last + 1, HEAD_MAX - 1
  end
  return nil, gone
end

local function line_drop(queue, waiters, place)
  of_type(redis.pcall('ZREM', queue, place.member))
  redis.call('HDEL', waiters, place.token)
end

-- Those who are gone leave the queue; not a token that has another place by now.
local function line_forget(queue, waiters, gone)
  for _, place in ipairs(gone) do
    redis.call('ZREM', queue, place.member)
    local entry = redis.call('HGET', waiters, place.token)
    if entry == place.member or entry and string.sub(entry, 17, 47) ~= place.token then
      redis.call('HDEL', waiters, place.token)
    end
  end
end

local function line_keep(queue, waiters)
  redis.call('PEXPIRE', queue, LINE_KEPT_MS)
  redis.call('PEXPIRE', waiters, LINE_KEPT_MS)
end

-- Writes: in the queue, where its ticket says.
local function line_add(queue, waiters, member, score)
  redis.call('HSET', waiters, string.sub(member, 17, 47), member)
  redis.call('ZADD', queue, score, member)
  line_keep(queue, waiters)
end

-- Writes: the lock goes to `place`, or is deleted when there is none. The message is last and says what is already
-- written: 'grant', the first reserved fence and how many (the first is 0 without fencing), server time, ttl, whether others are
-- left in the queue, token. When it is refused, the grant is taken back and the waiter stays in the queue. True when handed over.
local function line_hand_over(lock, queue, waiters, fence, place, last_fence, now_us)
  if not place then
    redis.call('DEL', lock)
    return false
  end
  line_drop(queue, waiters, place)
  local others = redis.call('ZCARD', queue) > 0 and '1' or '0'
  redis.call('SET', lock, place.token, 'PX', place.passed_ms)
  local fenced = is_fenced(place.token)
  local minted = fenced and fence_mint(fence, last_fence, now_us, tonumber(place.range)) or '0'
  local message = 'grant ' .. minted .. ' ' .. place.range .. ' ' .. whole(now_us) .. ' ' .. place.passed_ms .. ' '
    .. others .. ' ' .. place.token
  local sent = line_tell(place.channel, message)
  if type(sent) == 'table' and sent.err then
    redis.call('DEL', lock)
    if fenced then fence_lower(fence, tonumber(minted), tonumber(minted)) end
    line_add(queue, waiters, place.member, line_score(place.priority))
    return false
  end
  return true
end

-- Reads first, then writes: gives up `lock` to whoever is next. `used` is the highest number that its holder used of
-- those that were reserved; 0 when all are to count as used. Whatever is damaged, the lock is given up: who cannot have
-- it is told to poll, and learns of the damage.
local function line_pass_on(lock, queue, waiters, fence, used, now_us)
  local first_fence, last_fence = fence_read(fence)
  local unused = last_fence and first_fence <= used and used < last_fence
  if unused then last_fence = used end
  local place, gone, other = line_pick(queue, waiters, now_us, '', not last_fence)
  line_forget(queue, waiters, gone)
  local handed_over = line_hand_over(lock, queue, waiters, fence, place, last_fence, now_us)
  -- A grant with numbers of its own has taken the unused ones.
  if unused and not (place and is_fenced(place.token)) then fence_lower(fence, first_fence, used) end
  if not handed_over and (other or not last_fence) then line_tell_first(queue) end
  return handed_over
end
