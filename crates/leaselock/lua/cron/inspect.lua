-- cron/inspect: read what is known of the ticks. Changes nothing.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] record     hash; the latest ticks (lua/cron.lua)
--
-- Returns {"absent", skipped_us, time_us, schedule}  no tick has begun, or its record is not kept any more; skipped_us: the
--                                             latest tick that was left out, '0' for none; schedule: '' when none was given
--         {"running", skipped_us, time_us, schedule, tick_us, attempt}  the run of the latest tick holds the name
--         {"done", skipped_us, time_us, schedule, tick_us, attempt}     it has finished
--         {"crashed", skipped_us, time_us, schedule, tick_us, attempt}  it did not finish, and does not hold the name any more
-- Replay  the same answer
-- Writes  nothing
--#include prelude cron
local lock, record = KEYS[1], KEYS[2]

local now_us = clock_us()
local r, other = cron_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
cron_without_future(r, now_us)
local skipped_us, time_us, tick_us = whole(r.skipped_us), whole(now_us), whole(r.tick_us)
local schedule = redis.call('HGET', record, 'schedule') or ''
if not r.kind then return { 'absent', skipped_us, time_us, schedule } end
if r.kind == 'done' then return { 'done', skipped_us, time_us, schedule, tick_us, r.attempt } end
local held = of_type(redis.pcall('GET', lock)) -- nil for readers or permits (lua/holds.lua)
local token = r.token
--#inline broken
return { (held == token or held == broken) and 'running' or 'crashed', skipped_us, time_us, schedule, tick_us, r.attempt }
