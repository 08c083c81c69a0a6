-- barrier: so many parties wait for each other, generation after generation.
-- `waiting` is a sorted set: the token of each party that waits, whose score is the end of its lease; and the empty member,
-- whose score is how many parties there are, below zero. `passed` is a sorted set: ':token' of each party that has passed
-- in the latest two generations, whose score is the generation and its index in it.
local BARRIER_PARTIES_MAX = 1048576 -- a score has room for a generation and an index below this

-- Reads only: the generation that waits now; the generation and the index in which this token has passed, if it has.
local function barrier_read(passed, token)
  local last = redis.call('ZREVRANGE', passed, '0', '0', 'WITHSCORES')[2]
  local generation = last and math.floor(tonumber(last) / BARRIER_PARTIES_MAX) + 1 or 0
  local score = redis.call('ZSCORE', passed, ':' .. token)
  if not score then return generation end
  score = tonumber(score)
  return generation, math.floor(score / BARRIER_PARTIES_MAX), score % BARRIER_PARTIES_MAX
end
