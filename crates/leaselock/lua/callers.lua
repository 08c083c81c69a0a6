-- callers: who asks to be told of a release on this node of a quorum: 'token channel' in the order of arrival.

-- Writes: tells the first who is there, by its token on its channel: a reason to poll and no grant. Whoever is told or
-- is not there leaves: it asks again when it polls, and nobody is told in vain twice.
local function callers_tell(callers)
  local waiting = redis.pcall('ZRANGE', callers, '0', '15') -- an error for what is no sorted set has none
  for i = 1, #waiting do
    local whose, channel = string.match(waiting[i], '^(%S+) (.+)$')
    redis.call('ZREM', callers, waiting[i])
    -- PUBLISH would count a monitor of all channels too.
    local heard = channel and redis.pcall('PUBSUB', 'NUMSUB', channel)
    if heard and (heard.err or tonumber(heard[2]) > 0) then
      redis.pcall('PUBLISH', channel, whose)
      return
    end
  end
end
