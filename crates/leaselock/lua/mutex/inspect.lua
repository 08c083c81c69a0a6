-- mutex/inspect: show which clients hold the name, how and why, and which clients wait. Changes nothing.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[4] why        string; the exclusive holder's token and its note
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] leader     string; who leads (lua/leader.lua)
-- KEYS[7] once       hash; the latest run (lua/once.lua)
-- KEYS[8] cron       hash; the latest tick (lua/cron.lua)
--
-- Returns {"free", time_us, queue, permits, damaged}     queue: how many wait; client, priority, kind, `ticket`, client, …
--                                              of the first 128; permits: how many there are, how many are used, '1' when an
--                                              operator has said so, or nothing when it is not known; damaged: name and
--                                              key of each damaged side key, 'fence' or 'queue'
--         {"held", time_us, queue, permits, value, pttl_ms, fence, why, kind, damaged}    value: the holder's token, ours
--                                              or foreign; pttl_ms -1: it never expires; fence: the last of its numbers,
--                                              '0': this lease has none, or it is damaged; why: '' for another type;
--                                              kind: 'leader', 'once', 'cron', or '' when none of these records is its own
--         {"shared", time_us, queue, permits, count, holds, damaged}    readers or holders of permits, `count` of them;
--                                              holds: token, kind, rest_ms, fence, token, …: the 128 that end first
--         {"other", time_us, queue, permits, type, damaged}    the key holds a value that is not a lock
-- Replay  the same answer
-- Writes  nothing
--#include prelude fence queue member holds kind
local lock, queue, fence, why, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leader, once, cron = KEYS[6], KEYS[7], KEYS[8]

local NOTE_MAX = 1024 -- bytes that are shown

local now_us = clock_us()
local damaged = {}
local entries, other = queue_read(queue, 0, HEAD_MAX - 1)
local listed = { other and 0 or redis.call('ZCARD', queue) }
if other then damaged[1], damaged[2] = 'queue', queue end
local last_fence, refused = fence_last(fence)
if refused then return refused end
if not last_fence then damaged[#damaged + 1], damaged[#damaged + 2] = 'fence', fence end
for _, entry in ipairs(entries) do
  listed[#listed + 1] = client_of(entry.token)
  listed[#listed + 1] = entry.priority
  listed[#listed + 1] = entry.kind or ''
  listed[#listed + 1] = string.sub(entry.member, 1, TOKEN_START - 1)
end

local function kept(field)
  return of_type(redis.pcall('HGET', usage, field))
end

-- How many permits there are and are used.
local function permits_of(used)
  local permits = kept('permits')
  return permits and tonumber(permits) and { permits, whole(used), kept('pinned') and '1' or '0' } or {}
end

-- Expired holds stay in the set until a script that writes removes them.
local function live_holds()
  local over = #redis.call('ZRANGEBYSCORE', lock, '-inf', '(' .. whole(now_us), 'LIMIT', '0', '-1') -- the mark too
  local mark = member_fence(redis.call('ZRANGE', lock, '0', '0')[1])
  local found, members, ends = redis.call('ZRANGE', lock, over, over + HEAD_MAX, 'WITHSCORES'), {}, {}
  for i = 1, #found, 2 do
    if found[i] ~= 'u' and #members < HEAD_MAX then
      members[#members + 1], ends[#ends + 1] = found[i], tonumber(found[i + 1])
    end
  end
  local upgradable = tonumber(redis.call('ZSCORE', lock, 'u') or '-1') >= now_us
  return members, ends, redis.call('ZCARD', lock) - over - (upgradable and 1 or 0), over, mark
end

local function permits_used(members, count, over)
  if #members < count then members = redis.call('ZRANGE', lock, over, '-1') end
  local used = 0
  for _, member in ipairs(members) do
    used = used + (tonumber(string.sub(member, HOLD_START)) or 0)
  end
  return used
end

local function shared()
  local members, ends, count, over, mark = live_holds()
  if count == 0 then return { 'free', whole(now_us), listed, permits_of(0), damaged } end
  local permits, holds = permits_of(permits_used(members, count, over)), {}
  for i, member in ipairs(members) do
    local token, kind = string.sub(member, 1, HOLD_START - 1), string.sub(member, HOLD_START)
    local weighted = tonumber(kind)
    local number = weighted and kept(member) or is_fenced(token) and mark
    holds[#holds + 1] = token
    holds[#holds + 1] = weighted and 'w' .. kind or kind == 'u' and kind or 's'
    holds[#holds + 1] = holds_until({ now_us = now_us }, ends[i])
    holds[#holds + 1] = number or '0'
  end
  return { 'shared', whole(now_us), listed, permits, count, holds, damaged }
end

local kind = redis.call('TYPE', lock)
kind = type(kind) == 'table' and kind.ok or kind
if kind == 'zset' and holds_is_ours(redis.call('ZRANGE', lock, '0', '0')[1]) then return shared() end
local permits = permits_of(0)
if kind == 'none' then return { 'free', whole(now_us), listed, permits, damaged } end
if kind ~= 'string' then return { 'other', whole(now_us), listed, permits, kind, damaged } end
local held = redis.call('GET', lock)
local noted = of_type(redis.pcall('GET', why)) or ''
noted = string.sub(noted, 1, #held) == held and string.sub(noted, #held + 1, #held + NOTE_MAX) or ''
local number = fence_of(held, fence)
local kind_word = kind_of(held, leader, once, cron)
return { 'held', whole(now_us), listed, permits, held, redis.call('PTTL', lock), number, noted, kind_word, damaged }
