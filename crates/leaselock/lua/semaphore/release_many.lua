-- semaphore/release_many: give permits of many semaphores back at once, each for itself: of those with an empty queue.
--
-- KEYS[…] locks      the locks of n items (lua/holds.lua), then their n queues, then their n usages
-- ARGV[1] mode       of all items, as they were acquired
-- ARGV[…] tokens     each holder's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: the permits are given back
--           -  any other case: nothing was done, use semaphore/release
-- Replay  -, and semaphore/release knows that the first call did the work
-- Writes  locks; and the usages
--#include prelude many permits_many
local mode = ARGV[1]

local now_us, count = clock_us(), #ARGV - 1
local weight = tonumber(string.match(mode, '^w(%d+)'))
local is_plain = count <= MANY_MAX
local queued = is_plain and many_exist(KEYS, count + 1, 2 * count)

local function give_back(p, lock, token)
  local member = token .. weight
  local ends = p.count > 0 and p.used >= weight and redis.call('ZSCORE', lock, member)
  if not ends or tonumber(ends) < now_us then return false end
  redis.call('ZREM', lock, member)
  p.used, p.count = p.used - weight, p.count - 1
  p.gone = p.gone or {}
  p.gone[#p.gone + 1] = member
  return true
end

local letters, all = {}, {}
for i = 1, count do
  local lock = KEYS[i]
  if all[lock] == nil then
    local is_queued = queued and redis.pcall('EXISTS', KEYS[count + i]) ~= 0
    all[lock] = is_plain and not is_queued and permits_of(lock, KEYS[2 * count + i], '0')
  end
  letters[i] = all[lock] and give_back(all[lock], lock, ARGV[i + 1]) and 'r' or '-'
end

-- The key of other holds lives no longer than the longest of them.
for lock, p in pairs(all) do
  if p and p.gone then
    redis.call('HDEL', p.usage, unpack(p.gone))
    redis.call('HSET', p.usage, 'sum', permits_sum(p))
    local longest = p.count > 0 and redis.call('ZREVRANGE', lock, '0', '0', 'WITHSCORES')[2]
    if longest then redis.call('PEXPIRE', lock, math.max(1, math.ceil((longest - now_us) / 1000) + 1)) end
  end
end
return { 'answered', table.concat(letters) }
