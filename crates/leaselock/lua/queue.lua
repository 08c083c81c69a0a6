-- queue: the waiters of a lock, their order, which of them are alive, and waking one. It writes no lock.
-- `queue` is a sorted set: score = -priority, so it is first in, first out within a priority, because an entry begins
-- with its `ticket`. An entry holds all that a grant needs, and its parts have these positions in every script:
--    1-16  `ticket`, the order, 16 digits              TICKET_END
--   17-47  token, 31 characters                        TOKEN_START, TOKEN_END
--   48-63  server time of the latest poll, 16 digits   POLLED_START
--   64-    ' priority passed_ms kind channel'          WISH_START, without the space: the waiter's request;
--          the usual priority is ' 0 '                 PRIORITY_START, PRIORITY_END
-- `kind` is the kind of the request (lua/holds.lua). The plain cases of the mutex know digits only; a first entry of
-- another kind makes them fall through to the general part. `waiters` is a hash: token -> entry, so that a waiter that
-- polls or leaves finds its own. It is void without a queue.
-- A waiter that a visit could not reach is set aside: its member moves behind all others, with ASIDE_MARK at its end and
-- a score of ASIDE plus its latest poll. So no call reads it again, no poll finds its member, and the poll that does not
-- find it puts it back at the position of its `ticket`. Without a poll for 45 s it is forgotten.
local TOKEN_START, TOKEN_END, POLLED_START = 17, 47, 48
local QUEUE_KEPT_MS = '60000' -- every waiter polls at least every 15 s and renews this
local GONE_AFTER_US = 45000000 -- three polls missed
local HEAD_MAX = 128 -- entries that one command reads
local VISITED_MAX = 1024 -- and one call, some 3 ms if it sets all of them aside
local ASIDE, ASIDE_MARK = 4503599627370496, '~' -- 2^52: above every priority, and a time added to it is exact

-- An entry, parsed into text. One of another version has no channel and never polled.
local function queue_entry(member)
  local polled_us, priority, passed_ms, kind, channel =
    string.match(member, '^(%d+) (-?%d+) (%d+) (%w+) (.*)$', POLLED_START)
  return { member = member, token = string.sub(member, TOKEN_START, TOKEN_END), polled_us = polled_us or '0',
    priority = priority or '0', passed_ms = passed_ms, kind = kind, channel = channel or '' }
end

-- A waiter that holds an upgradable read is ahead of every priority: behind another waiter it would wait for itself.
local function queue_score(priority, kind)
  if kind == 'x' then return '-inf' end
  if priority == '0' then return '0' end
  return string.sub(priority, 1, 1) == '-' and string.sub(priority, 2) or '-' .. priority
end

-- The key of `queue` or of `waiters` has another type, so the waiters are unknown.
local function queue_damaged(key)
  return { err = 'DAMAGED queue ' .. key }
end

-- Reads only: the member of a waiter that has one; nil and true when `waiters` is damaged.
local function queue_known(waiters, token)
  local member, other = of_type(redis.pcall('HGET', waiters, token))
  if other then return nil, true end
  return member and string.sub(member, TOKEN_START, TOKEN_END) == token and string.match(member, '^%d+') and member
end

-- In a cluster a channel may belong to the slot, so that its messages stay with the node: the end of its name says so.
local function queue_is_sharded(channel)
  return string.sub(channel, -2) == ':s'
end

local function queue_tell(channel, message)
  if queue_is_sharded(channel) then return redis.pcall('SPUBLISH', channel, message) end
  return redis.pcall('PUBLISH', channel, message)
end

-- Reads only: adds to `present` which channels of these entries have a subscriber. It stays unknown when the server
-- refuses to say.
local function queue_present(present, entries)
  local asked, sharded, plain = {}, {}, {}
  for _, entry in ipairs(entries) do
    local channel = entry.channel
    if channel ~= '' and present[channel] == nil and not asked[channel] then
      local kind = queue_is_sharded(channel) and sharded or plain
      asked[channel], kind[#kind + 1] = true, channel
    end
  end
  for _, kind in ipairs({ sharded, plain }) do
    local counts = kind[1] and redis.pcall('PUBSUB', kind == sharded and 'SHARDNUMSUB' or 'NUMSUB', unpack(kind)) or {}
    for i = 1, #counts, 2 do -- an error has none
      present[counts[i]] = tonumber(counts[i + 1]) > 0
    end
  end
end

-- Reads only: the parsed entries from `first` to `last`; none and true when the queue is damaged.
local function queue_read(queue, first, last)
  local entries, members, other = {}, of_type(redis.pcall('ZRANGE', queue, first, last))
  for i, member in ipairs(members or {}) do
    entries[i] = queue_entry(member)
  end
  return entries, other
end

-- Writes nothing: wakes the first waiter, by its token alone, which is a reason to poll. It may not be alive, or we may
-- not publish; then it polls by itself.
local function queue_tell_first(queue)
  local first = queue_read(queue, 0, 0)[1]
  if first and first.channel ~= '' then queue_tell(first.channel, first.token) end
end

-- Reads only: calls `visit` with each waiter that is alive, from the head on, until it returns true; `asking`, the
-- caller, is alive. Returns the entries to set aside; true when `waiters` is damaged; and true when so many could not be
-- reached that others were not read. A member without an entry in `waiters` is of a waiter that was not found when it
-- left.
local function queue_visit(queue, waiters, asking, visit)
  local lost, present, first, last = {}, { [''] = false }, 0, 0 -- the head alone first: usually no other is visited
  while first < VISITED_MAX do
    local entries = queue_read(queue, first, last)
    queue_present(present, entries)
    for _, entry in ipairs(entries) do
      if string.sub(entry.member, -1) == ASIDE_MARK then
        lost.are_others_aside = true
        return lost
      end
      local is_alive, known, other = entry.passed_ms and (entry.token == asking or present[entry.channel]), nil, nil
      if is_alive then known, other = of_type(redis.pcall('HGET', waiters, entry.token)) end
      if other then return {}, true end
      if known and visit(entry) then return lost end
      if is_alive and not known then entry.polled_us = '0' end -- to be forgotten at once
      if not known and (is_alive or present[entry.channel] == false) then lost[#lost + 1] = entry end
    end
    if #entries <= last - first then return lost end
    first, last = last + 1, last + HEAD_MAX
  end
  return lost, false, true
end

-- Writes: sets these waiters aside, and forgets those that were for long. Not a token that has another entry by now.
local function queue_set_aside(queue, waiters, lost, now_us)
  if not lost[1] and not lost.are_others_aside then return end
  for first = 1, #lost, HEAD_MAX do
    local members, aside = {}, {}
    for i = first, math.min(first + HEAD_MAX - 1, #lost) do
      local member = lost[i].member
      members[#members + 1] = member
      aside[#aside + 1] = whole(ASIDE + tonumber(lost[i].polled_us))
      aside[#aside + 1] = member .. ASIDE_MARK
    end
    if type(redis.pcall('ZADD', queue, unpack(aside))) ~= 'number' then return end -- memory is full
    redis.call('ZREM', queue, unpack(members))
  end
  local long_ago = '(' .. whole(ASIDE + now_us - GONE_AFTER_US)
  local found = redis.pcall('ZRANGEBYSCORE', queue, whole(ASIDE), long_ago, 'LIMIT', '0', whole(VISITED_MAX))
  local forgotten = of_type(found) or {}
  if forgotten[1] then redis.call('ZREM', queue, unpack(forgotten)) end
  for _, aside in ipairs(forgotten) do
    local token = string.sub(aside, TOKEN_START, TOKEN_END)
    local known = of_type(redis.pcall('HGET', waiters, token))
    if known and (known .. ASIDE_MARK == aside or string.sub(known, TOKEN_START, TOKEN_END) ~= token) then
      redis.call('HDEL', waiters, token)
    end
  end
end

-- Writes nothing: a visit ended before it read all, so one waiter that is alive is told to poll, and its call goes on:
-- the caller, if it waits; otherwise one of the last.
local function queue_tell_alive(queue, waiters, asking)
  local member, entries, present = queue_known(waiters, asking), {}, {}
  for i, last in ipairs(member and { member }
    or redis.call('ZREVRANGEBYSCORE', queue, '(' .. whole(ASIDE), '-inf', 'LIMIT', '0', whole(HEAD_MAX))) do
    entries[i] = queue_entry(last)
  end
  queue_present(present, entries)
  for _, entry in ipairs(entries) do
    if present[entry.channel] then return queue_tell(entry.channel, entry.token) end
  end
end

local function queue_drop(queue, waiters, entry)
  of_type(redis.pcall('ZREM', queue, entry.member, entry.member .. ASIDE_MARK))
  redis.call('HDEL', waiters, entry.token)
end

local function queue_keep(queue, waiters)
  redis.call('PEXPIRE', queue, QUEUE_KEPT_MS)
  redis.call('PEXPIRE', waiters, QUEUE_KEPT_MS)
end

-- Writes: adds the entry to the queue, at the position of its `ticket`.
local function queue_add(queue, waiters, member, score)
  redis.call('HSET', waiters, string.sub(member, TOKEN_START, TOKEN_END), member)
  redis.call('ZADD', queue, score, member)
  queue_keep(queue, waiters)
end

-- Writes: joins the queue, or marks the waiter as alive: a known token keeps its `ticket` and with it its position, as
-- long as its score is the same. `member` is its entry so far, or nil. Returns the new entry.
local function queue_join(queue, waiters, token, member, wait, now_us)
  local TICKET_END, ZEROS = 16, '0000000000000000'
  local score = queue_score(string.match(wait, '^(-?%d+) %d+ (%w+)'))
  local before = member and queue_entry(member)
  local ticket = before and queue_score(before.priority, before.kind) == score and string.sub(member, 1, TICKET_END)
  if not ticket then
    local last = redis.call('ZREVRANGEBYSCORE', queue, score, score, 'LIMIT', '0', '1')[1]
    local after = last and (tonumber(string.sub(last, 1, TICKET_END)) or 0) + 1 or 0 -- 0: no entry of ours
    ticket = string.sub(ZEROS .. whole(math.max(after, now_us)), -TICKET_END)
  end
  if member then redis.call('ZREM', queue, member, member .. ASIDE_MARK) end
  member = ticket .. token .. string.sub(ZEROS .. whole(now_us), -TICKET_END) .. ' ' .. wait
  queue_add(queue, waiters, member, score)
  return member
end
