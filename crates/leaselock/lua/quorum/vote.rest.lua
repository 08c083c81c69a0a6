-- quorum/vote, behind its fragments: every case but the plain one. A token that holds may have taken the lock just now.
local now_us = clock_of(time)
local held = redis.call('GET', lock)
if held and held ~= token then
  if caller ~= '' then
    -- NX: it keeps its place. What is there and is no sorted set costs the caller its wake-up and not the answer.
    redis.pcall('ZADD', callers, 'NX', whole(now_us), caller)
    redis.pcall('PEXPIRE', callers, '60000') -- everybody asks again sooner
  end
  return { 'busy', redis.call('PTTL', lock), client_of(held), whole(now_us) }
end

local accepted, least = true, 0
if is_fenced(token) then
  local before, other = of_type(redis.pcall('GET', fence))
  accepted, least = proposal_holds(before, tonumber(proposed), now_us, behind_us)
  if other or accepted == nil then
    if taken then redis.call('DEL', lock) end
    return fence_damaged(fence)
  end
  local refusal = accepted and proposal_write(fence, before, proposed)
  if refusal then return refusal end
end
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  redis.call('SET', lock, token, 'PX', ttl_ms)
elseif redis.call('PTTL', lock) < tonumber(ttl_ms) then
  redis.call('PEXPIRE', lock, ttl_ms)
end
if accepted then return { 'accepted', whole(now_us) } end
return { 'granted', whole(least), whole(now_us) }
