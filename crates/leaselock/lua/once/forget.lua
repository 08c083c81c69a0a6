-- once/forget: forget what became of the latest run, so that the next caller runs again.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] record     hash; what became of the latest run (lua/once.lua)
--
-- Returns {"forgotten"}         there was a record
--         {"absent"}            there was none
--         {"running", fence}    a run holds the name; nothing was changed
-- Replay  "absent"
-- Writes  record
--#include prelude once
local lock, record = KEYS[1], KEYS[2]

local r, other = once_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
local held = of_type(redis.pcall('GET', lock)) -- nil for readers or permits (lua/holds.lua)
if r and r.kind == 'run' then
  local token = r.token
--#inline broken
  if held == token or held == broken then return { 'running', r.fence } end
end
return { redis.call('DEL', record) == 1 and 'forgotten' or 'absent' }
