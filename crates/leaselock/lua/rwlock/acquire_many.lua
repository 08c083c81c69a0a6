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
--           f  granted; behind the letters, for each f in order, the fencing token that all have who read
--           -  any other case: nothing was done, use rwlock/acquire
-- Replay  a token that reads gets the same fence with its ttl renewed, or -: rwlock/acquire knows a token that reads
-- Writes  locks
--#include prelude many member fence
local ttl_ms, fencing = ARGV[1], ARGV[2]

local TOKEN_LENGTH = 31

local now_us = clock_us()
local now, ends, key_ms = whole(now_us), whole(now_us + ttl_ms * 1000), whole(ttl_ms + 1)
local count = #ARGV - 2
local fenced = fencing == '1'
local is_plain = count <= MANY_MAX
local all_free = is_plain and not many_exist(KEYS, 1, 2 * count)
local queued = not all_free and is_plain and many_exist(KEYS, count + 1, 2 * count)

-- Reads: the fencing token of those who read the lock of an item, and the member beside a first one; false in any other case
-- than a free lock or readers, among whom there is a fencing token if this reader wants one.
local function shared_by(i)
  local first
  if not all_free then
    if queued and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then return false end
    local held = redis.pcall('ZRANGE', KEYS[i], '0', '0')
    first = held[1]
    if held.err or first and not member_fence(first) and (fenced or #first ~= TOKEN_LENGTH) then return false end
  end
  if first then return member_fence(first) or '0' end
  if not fenced then return '0' end
  local minted = fence_mint(KEYS[2 * count + i])
  return minted or false, minted and 'f' .. minted
end

-- A name is judged by its first item: the next ones join that, and have the same end.
local shared, letters, behind = {}, {}, {}

local function read(i)
  local lock, mark = KEYS[i], nil
  local is_first = shared[lock] == nil
  if is_first then shared[lock], mark = shared_by(i) end
  if not shared[lock] then return false end
  local added
  if mark then
    added = redis.pcall('ZADD', lock, ends, ARGV[i + 2], '-inf', mark)
  else
    added = redis.pcall('ZADD', lock, ends, ARGV[i + 2])
  end
  if type(added) ~= 'number' then
    shared[lock] = false
  elseif is_first and (all_free or redis.call('PTTL', lock) <= tonumber(ttl_ms)) then
    redis.call('PEXPIRE', lock, key_ms)
  end
  return shared[lock]
end

for i = 1, count do
  local number = is_plain and read(i)
  letters[i] = not number and '-' or fenced and 'f' or 'g'
  if letters[i] == 'f' then behind[#behind + 1] = number end
end
return { 'answered', now, table.concat(letters), unpack(behind) }
