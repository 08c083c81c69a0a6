-- rwlock/acquire_many: read under many read-write locks at once, each for itself: those that are free or that only
-- readers hold, with an empty queue.
--
-- KEYS[…] locks      the locks of n items (lua/holds.lua), then their n queues, then their n fences
-- ARGV[1] ttl_ms     integer > 0; the lease of each
-- ARGV[2] fencing    '1' when each wants a fencing token, '0' when none does
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, letters, …}   one letter for each item, in the order of the locks:
--           g  granted: it reads until ttl_ms from time_us
--           f  granted, and time_us is its fencing token
--           j  granted, beside readers; behind the letters, for each j in order, the fencing token that all of them have
--           -  any other case: nothing was done, use rwlock/acquire
-- Replay  a token that reads gets the same fence with its ttl renewed, or -: rwlock/acquire knows a token that reads
-- Writes  locks
--#include prelude many fence many_fence
local ttl_ms, fencing = ARGV[1], ARGV[2]

local TOKEN_LENGTH, TIME_LENGTH, SHARED = 31, 16, 115

local now_us = clock_us()
local now, ends, key_ms = whole(now_us), whole(now_us + ttl_ms * 1000), whole(ttl_ms + 1)
local fresh = now .. ':' .. now .. 's'
local count = #ARGV - 2
local fenced = fencing == '1'
local is_plain = count <= MANY_MAX and #now == TIME_LENGTH
local all_free = is_plain and not many_exist(KEYS, 1, 2 * count)
local queued = not all_free and is_plain and many_exist(KEYS, count + 1, 2 * count)

local function is_shared(fence_value)
  return type(fence_value) == 'string' and string.byte(fence_value, -1) == SHARED
end

-- The fencing token of those who read the lock of an item from now on, '0' without fencing; false in any other case.
-- The same cases as in rwlock/acquire.
local function fence_for(i)
  local fence, first = KEYS[2 * count + i], nil
  if not all_free then
    if queued and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then return false end
    local held = redis.pcall('ZRANGE', KEYS[i], '0', '0')
    first = held[1]
    if held.err or first and #first ~= TOKEN_LENGTH then return false end
  end
  if not fenced then
    -- A reader that joins this one later must not have the number of readers before: rwlock/acquire takes their mark off.
    return (first or not is_shared(redis.pcall('GET', fence))) and '0'
  end
  local before = first and redis.pcall('GET', fence)
  if not is_shared(before) then return many_fence_mint(fence, fresh, now) and now end
  local last = string.match(before, '^%d+:(%d+)s$')
  if not last or #last ~= TIME_LENGTH or #before ~= FENCE_LENGTH + 1 then return false end
  if string.sub(last, 1, SAME_10000_S) ~= string.sub(now, 1, SAME_10000_S) then
    redis.pcall('PEXPIRE', fence, FENCE_KEPT_MS)
  end
  return last
end

-- A name is judged by its first item: the next ones join that, and have the same end.
local fences, letters, joined = {}, {}, {}

local function read(i)
  local lock = KEYS[i]
  local number, is_first = fences[lock], fences[lock] == nil
  if is_first then number = fence_for(i) end
  if number and type(redis.pcall('ZADD', lock, ends, ARGV[i + 2])) ~= 'number' then number = false end
  if number and is_first and (all_free or redis.call('PTTL', lock) <= tonumber(ttl_ms)) then
    redis.call('PEXPIRE', lock, key_ms)
  end
  fences[lock] = number
  return number
end

for i = 1, count do
  local number = is_plain and read(i)
  letters[i] = not number and '-' or not fenced and 'g' or number == now and 'f' or 'j'
  if letters[i] == 'j' then joined[#joined + 1] = number end
end
return { 'answered', now, table.concat(letters), unpack(joined) }
