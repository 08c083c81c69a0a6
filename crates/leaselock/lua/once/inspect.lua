-- once/inspect: read what became of the latest run. Changes nothing.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] record     hash; what became of the latest run (lua/once.lua)
--
-- Returns {"absent"}                        no run has begun, or what became of it is not kept any more
--         {"running", fence, attempt}       a run holds the name
--         {"done", fence, attempt, result}  it has ended, with this result
--         {"failed", fence, attempt, rest_ms, text}  it failed; another may begin in rest_ms
--         {"kept", fence, attempt, text}    it failed, which is kept as a result is
--         {"crashed", fence, attempt}       it did not end, and does not hold the name any more
-- Replay  the same answer
-- Writes  nothing
--#include prelude once
local lock, record = KEYS[1], KEYS[2]

local now_us = clock_us()
local r, other = once_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
if not r then return { 'absent' } end
if r.kind == 'done' then return { 'done', r.fence, r.attempt, once_result(record) } end
if r.kind == 'kept' then return { 'kept', r.fence, r.attempt, once_result(record) } end
if r.kind == 'fail' then
  return { 'failed', r.fence, r.attempt, once_rest_ms(r, now_us), once_result(record) }
end
local held = of_type(redis.pcall('GET', lock)) -- nil for readers or permits (lua/holds.lua)
local token = r.token
--#inline broken
return { (held == token or held == broken) and 'running' or 'crashed', r.fence, r.attempt }
