-- leader: the record of who leads a name: token, channel, term and value, one a line. It counts only while its token holds
-- the lock, so no renewal has to touch it. `channel` is where changes are broadcast (lua/broadcast.lua). `term` is the
-- fencing token of the leader, which the key of the fence may forget while the lease lasts.

local function leader_text(token, channel, term, value)
  return token .. '\n' .. channel .. '\n' .. term .. '\n' .. value
end

-- Reads only: whose record it is, and what that leader has proclaimed; nothing when there is none.
local function leader_read(leader)
  local record = of_type(redis.pcall('GET', leader)) or ''
  return string.match(record, '^([^\n]*)\n([^\n]*)\n(%d+)\n(.*)$')
end
