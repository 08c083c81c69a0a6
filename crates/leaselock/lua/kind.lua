-- kind: what a lease that is held alone is for, as a record beside the lock says.

-- Reads only: 'leader', 'once' or 'cron' if that record has the token `held`; '' otherwise. A record outlives its lease, so
-- that there is one says nothing. A break changes the sign of a token, which is behind RANDOM (lua/inline/broken.lua).
local function kind_of(held, leader, once, cron)
  local RANDOM, STATE_TOKEN = 22, 5 -- a state is 'run TOKEN …' (lua/once.lua, lua/cron.lua)
  if redis.call('EXISTS', leader, once, cron) == 0 then return '' end
  local function names_it(record, first)
    return type(record) == 'string' and string.sub(record, first, first + RANDOM - 1) == string.sub(held, 1, RANDOM)
  end
  return names_it(redis.pcall('GET', leader), 1) and 'leader'
    or names_it(redis.pcall('HGET', once, 'state'), STATE_TOKEN) and 'once'
    or names_it(redis.pcall('HGET', cron, 'state'), STATE_TOKEN) and 'cron'
    or ''
end
