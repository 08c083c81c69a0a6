-- number: the fencing token of `id` (lua/fence.lua), as text in `number`, and its parts.
local ms, count = string.match(id, '^(%d+)-(%d+)$')
local number = ms .. string.sub('00' .. count, -3)
