-- permits_many: what the scripts for many permits at once read of each semaphore, in the plain case: it has as many holds
-- as `usage` says (lua/holds.lua). That its holds are permits is for the script to see: a token that holds permits shows it.

-- Reads only: the permits of one lock; false in any other case. `permits`: how many there are by the caller's word;
-- `is_free`: the lock is known to have no key.
local function permits_of(lock, usage, permits, is_free)
  local count = is_free and 0 or redis.pcall('ZCARD', lock)
  local kept = type(count) == 'number' and redis.pcall('HMGET', usage, 'sum', 'permits', 'pinned')
  if not kept or kept.err then return false end
  local used, counted = string.match(kept[1] or '', '^(%d+) (%d+)$')
  if count == 0 and not kept[1] then used, counted = 0, 0 end
  if tonumber(counted) ~= count then return false end
  permits = tonumber(kept[3] and kept[2] or permits)
  return permits and { usage = usage, used = tonumber(used), count = count, permits = permits }
end

local function permits_sum(p)
  return string.format('%d %d', p.used, p.count)
end
