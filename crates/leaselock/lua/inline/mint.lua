-- mint: the next id of `fence` (lua/fence.lua), as `id`, and whether it is a fencing token, as `is_minted`. It has no
-- function, so that a head may stand above all functions.
local id = redis.pcall('XADD', fence, 'NOMKSTREAM', 'MAXLEN', '0', '*', '-', '-')
if not id then
  local time = redis.call('TIME')
  local ms = time[1] * 1000 + math.floor(time[2] / 1000) + 2 -- behind all that a key that was lost may have granted
  id = redis.pcall('XADD', fence, 'MAXLEN', '0', string.format('%.0f-%d', ms, time[2] % 1000), '-', '-')
end
local is_minted = not id.err and #id <= 17 and string.byte(id, 14) == 45 and id < '9'
if is_minted then redis.call('PEXPIRE', fence, '93600000') end -- 26 h
