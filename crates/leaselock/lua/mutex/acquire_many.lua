-- mutex/acquire_many: acquire many mutexes at once, each for itself: those that are free with an empty queue.
--
-- KEYS[…] locks      the locks of n items, then their n queues, then their n fences (none without fencing)
-- ARGV[1] ttl_ms     integer > 0; the lease of each
-- ARGV[2] fencing    '1' mints fencing tokens, '0' does not
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, letters, …}   one letter for each item, in the order of the locks:
--           g  granted: held until ttl_ms from time_us
--           f  granted; behind the letters, behind all that is said of b, for each f in order, its fencing token
--           b  busy: held by another client; behind the letters, for each b in order, its remaining milliseconds
--              (-1: none is set) and its client ('' when foreign)
--           -  any other case: nothing was done, use mutex/acquire
-- Replay  - for an item that the first call granted: mutex/acquire knows a token that holds
-- Writes  locks
--#include prelude many fence
local ttl_ms, fencing = ARGV[1], ARGV[2]

local now_us = clock_us()
local now = whole(now_us)
local count = #ARGV - 2
local fenced = fencing == '1'
local behind, met = {}, {}

-- Takes the lock of an item by its number, and returns its letter. A key of another type counts as free up to here, and
-- NX leaves it as it is. The second item of a lock mints no number: the latest one is the holder's.
local function take(i)
  if met[KEYS[i]] then return '-' end
  met[KEYS[i]] = true
  local number = fenced and fence_mint(KEYS[2 * count + i])
  if fenced and not number then return '-' end
  local taken = redis.pcall('SET', KEYS[i], ARGV[i + 2], 'PX', ttl_ms, 'NX')
  if not taken or not taken.ok then return '-' end
  if fenced then behind[#behind + 1] = number end
  return fenced and 'f' or 'g'
end

-- The plain case: no item has a lock or a queue.
local plain = count <= MANY_MAX and not many_exist(KEYS, 1, 2 * count)
local held = not plain and count <= MANY_MAX and many_values(KEYS, 1, count)
local answers = {}

for i = 1, plain and 0 or count do
  local holder = held and held[i]
  if not held or holder == ARGV[i + 2] then
    answers[i] = '-'
  elseif holder then
    local pttl_ms = redis.pcall('PTTL', KEYS[i])
    answers[i] = type(pttl_ms) == 'number' and 'b' or '-'
    if answers[i] == 'b' then
      behind[#behind + 1] = pttl_ms
      behind[#behind + 1] = client_of(holder)
    end
  elseif redis.pcall('EXISTS', KEYS[i], KEYS[count + i]) ~= 0 then -- a queue, or a set of readers or permits
    answers[i] = '-'
  end
end

for i = 1, count do
  if not answers[i] then answers[i] = take(i) end
end
return { 'answered', now, table.concat(answers), unpack(behind) }
