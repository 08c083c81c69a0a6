-- callers: whom a release wakes on this node of a quorum: a sorted set of 'token channel' in the order of arrival.

-- Writes: wakes the first caller that is alive, by its token on its channel: a reason to poll and no grant. A caller
-- that is woken or not alive is removed: it registers again when it polls, and is never woken twice in vain.
local function callers_tell(callers)
  local waiting = redis.pcall('ZRANGE', callers, '0', '15') -- an error for another type has none
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
