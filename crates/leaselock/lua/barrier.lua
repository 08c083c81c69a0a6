-- barrier: so many parties wait for each other, generation after generation.
-- `waiting` is a sorted set: the token of each party that waits, whose score is the end of its lease; and the empty member,
-- whose score is how many parties there are, below zero. `passed` is a sorted set: the empty member, whose score is how many
-- generations have passed, below zero; and ':token' of each party that has passed, whose score is the second until which
-- that is remembered, and the party's index: a party may learn it when many more generations have passed.
local BARRIER_PARTIES_MAX = 1048576 -- a score has room for a second and an index below this

-- Reads only: the generation that waits now, and the index with which this token has passed, if it has.
local function barrier_read(passed, token)
  local generation = -tonumber(redis.call('ZSCORE', passed, '') or '0')
  local score = redis.call('ZSCORE', passed, ':' .. token)
  return generation, score and tonumber(score) % BARRIER_PARTIES_MAX
end
