-- latch: parties arrive, and when all have arrived it opens, once and for all.
-- A sorted set: the empty member, whose score is how many parties there are, below zero so that it is the first; and
-- ':party' of each that has arrived, whose score is the order.

-- Reads only: how many parties there are (nil: no party has arrived), and the names of those that have arrived, in order.
local function latch_read(latch)
  local members, arrived = redis.call('ZRANGE', latch, '0', '-1'), {}
  for i = 2, #members do
    arrived[i - 1] = string.sub(members[i], 2)
  end
  local count = members[1] and redis.call('ZSCORE', latch, '')
  return count and -tonumber(count), arrived
end
