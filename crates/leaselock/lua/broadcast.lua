-- broadcast: tell all who watch a name that something has changed. The message is empty: it is a reason to read.

-- Writes nothing: publishes, as the last step of a script. In a cluster the channel belongs to the slot. Servers before
-- version 7 have no such channels, and there all listen to the channel without its end.
local function broadcast(channel)
  if string.sub(channel, -2) ~= ':s' then return redis.pcall('PUBLISH', channel, '') end
  local sent = redis.pcall('SPUBLISH', channel, '')
  if type(sent) == 'table' and sent.err then redis.pcall('PUBLISH', string.sub(channel, 1, -3), '') end
end
