-- mutex/types: show the type of what lies at each key, to find the one that is damaged. Changes nothing.
--
-- KEYS[…] candidates  any keys of one slot
--
-- Returns {"types", type, …}    of each key, as TYPE names it; 'none' where nothing lies
-- Replay  the same answer
-- Writes  nothing
local candidates = KEYS

local answer = { 'types' }
for i, key in ipairs(candidates) do
  local kind = redis.call('TYPE', key)
  answer[i + 1] = type(kind) == 'table' and kind.ok or kind
end
return answer
