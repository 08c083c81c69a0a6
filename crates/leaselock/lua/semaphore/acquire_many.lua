-- semaphore/acquire_many: take permits of many semaphores at once, each for itself: of those with so many free permits
-- and an empty queue.
--
-- KEYS[…] locks      the locks of n items (lua/holds.lua), then their n queues, then their n usages, then, with fencing,
--                    their n fences
-- ARGV[1] ttl_ms     integer > 0; the lease of each
-- ARGV[2] fencing    '1' when each wants a fencing token, '0' when none does
-- ARGV[3] mode       of all items, as in semaphore/acquire
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, letters, …}   one letter for each item, in the order of the locks:
--           g  granted: it has the permits until ttl_ms from time_us
--           f  granted; behind the letters, for each f in order, its fencing token
--           -  any other case: nothing was done, use semaphore/acquire
-- Replay  -, and semaphore/acquire knows a token that holds
-- Writes  locks; and the usages and fences
--#include prelude member many fence permits_many
local ttl_ms, fencing, mode = ARGV[1], ARGV[2], ARGV[3]

local USAGE_KEPT_MS = '614800000' -- how long the number of permits is kept after the latest request

local now_us = clock_us()
local now, ends, key_ms = whole(now_us), whole(now_us + ttl_ms * 1000), whole(ttl_ms + 1)
local count = #ARGV - 3
local weight, permits = string.match(mode, '^w(%d+) (%d+)$')
local fenced = fencing == '1'
local is_plain = count <= MANY_MAX
local all_free = is_plain and not many_exist(KEYS, 1, 2 * count)
local queued = not all_free and is_plain and many_exist(KEYS, count + 1, 2 * count)

-- Whether the holds are permits: no reader is among them, nor another program's member.
local function only_permits(p, lock)
  p.is_ours = p.is_ours or p.written or string.find(redis.call('ZRANGE', lock, '0', '0')[1], '^%d+$', HOLD_START)
  return p.is_ours
end

local function take(p, i)
  local lock, member = KEYS[i], ARGV[i + 3] .. weight
  if p.used + weight > p.permits then return false end
  if p.count > 0 and (redis.call('ZSCORE', lock, member) or not only_permits(p, lock)) then return false end
  local number = not fenced and '0' or fence_mint(KEYS[3 * count + i])
  if not number or type(redis.pcall('ZADD', lock, ends, member)) ~= 'number' then return false end
  if not p.written and (p.count == 0 or redis.call('PTTL', lock) <= tonumber(ttl_ms)) then
    redis.call('PEXPIRE', lock, key_ms)
  end
  p.used, p.count = p.used + weight, p.count + 1
  p.written = p.written or {}
  p.written[#p.written + 1] = member
  p.written[#p.written + 1] = number
  return number
end

local letters, behind = {}, {}
local all = {}
for i = 1, count do
  local lock = KEYS[i]
  if all[lock] == nil then
    local is_queued = queued and redis.pcall('EXISTS', KEYS[count + i]) ~= 0
    all[lock] = is_plain and not is_queued and permits_of(lock, KEYS[2 * count + i], permits, all_free)
  end
  local number = all[lock] and take(all[lock], i)
  letters[i] = not number and '-' or fenced and 'f' or 'g'
  if letters[i] == 'f' then behind[#behind + 1] = number end
end
for _, p in pairs(all) do
  if p and p.written then
    redis.call('HSET', p.usage, 'sum', permits_sum(p), 'permits', whole(p.permits), unpack(p.written))
    redis.call('PEXPIRE', p.usage, USAGE_KEPT_MS)
  end
end
return { 'answered', now, table.concat(letters), unpack(behind) }
