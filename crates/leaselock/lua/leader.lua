-- leader: the record of who leads a name: token, channel, term and value, one a line. It counts only while its token holds
-- the lock, so no renewal has to touch it. `channel` is where changes are broadcast (lua/broadcast.lua). `term` is the
-- fencing token of the leader, which the key of the fence forgets after seven days.

local function leader_text(token, channel, term, value)
  return token .. '\n' .. channel .. '\n' .. term .. '\n' .. value
end

-- Reads only: what this holder has proclaimed; nothing when it has not.
local function leader_read(leader, token)
  local record = of_type(redis.pcall('GET', leader)) or ''
  local its, channel, term, value = string.match(record, '^([^\n]*)\n([^\n]*)\n(%d+)\n(.*)$')
  if its == token then return channel, term, value end
end
