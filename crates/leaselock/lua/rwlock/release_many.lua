-- rwlock/release_many: stop reading under many read-write locks at once, each for itself: those with an empty queue.
--
-- KEYS[…] locks      the locks of n items (lua/holds.lua), then their n queues
-- ARGV[…] tokens     each reader's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: the hold is given back
--           -  any other case: nothing was done, use rwlock/release
-- Replay  -, and rwlock/release knows that the first call did the work
-- Writes  locks
--#include prelude many member
local now_us, count = clock_us(), #ARGV
local is_plain = count <= MANY_MAX
local queued = is_plain and many_exist(KEYS, count + 1, 2 * count)

local letters, left = {}, {}

for i = 1, count do
  letters[i] = '-'
  if is_plain and not (queued and redis.pcall('EXISTS', KEYS[count + i]) ~= 0) then
    local ends = redis.pcall('ZSCORE', KEYS[i], ARGV[i])
    if type(ends) == 'string' and tonumber(ends) >= now_us then
      redis.call('ZREM', KEYS[i], ARGV[i])
      letters[i], left[#left + 1] = 'r', KEYS[i]
    end
  end
end

if left[1] and redis.call('EXISTS', unpack(left)) ~= 0 then
  local is_done = {}
  for _, lock in ipairs(left) do
    if not is_done[lock] then member_last(lock, now_us) end
    is_done[lock] = true
  end
end
return { 'answered', table.concat(letters) }
