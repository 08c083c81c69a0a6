-- hold/keep: keep what the store remembers beside a lease that is held for long, as a grant does.
--
-- KEYS[1] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[2] usage      hash; of permits: how many there are and are used (lua/holds.lua)
--
-- Returns {"kept"}    each of them that is there lasts as long as after a grant
-- Replay  the same answer
-- Writes  fence, usage
local fence, usage = KEYS[1], KEYS[2]

redis.call('PEXPIRE', fence, '93600000') -- 26 h
redis.call('PEXPIRE', usage, '614800000') -- 7.1 days
return { 'kept' }
