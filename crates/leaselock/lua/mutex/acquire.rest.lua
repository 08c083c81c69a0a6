-- mutex/acquire, behind its fragments: every case but the plain ones.
local now_us = clock_of(time)
local priority, range, waits, fenced = '0', '1', wait ~= '', is_fenced(token)
if waits then
  priority, range = string.match(wait, '^(-?%d+) %d+ (%d+) ')
end
local score = line_score(priority)
held = redis.call('GET', lock)

if held == token then
  local first_fence, last_fence = 0, 0
  if fenced then first_fence, last_fence = fence_read(fence) end
  if not last_fence then return fence_damaged(fence) end
  if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
  if fenced then
    if first_fence == 0 then first_fence, last_fence = tonumber(fence_mint(fence, 0, now_us, 1)), now_us end
    range = whole(last_fence - first_fence + 1)
  end
  return { 'granted', whole(first_fence), range, now, (of_type(redis.pcall('ZCARD', queue)) or 0) > 0 and '1' or '0' }
end
if held and not waits then return { 'busy', redis.call('PTTL', lock), client_of(held), now } end

local length, other_queue = of_type(redis.pcall('ZCARD', queue))
if other_queue then return line_damaged(queue) end
local member, other_waiters = line_known(waiters, token)
if other_waiters and (held or length > 0) then return line_damaged(waiters) end
local _, last_fence = 0, 0
if not held then _, last_fence = fence_read(fence) end
if fenced and not last_fence then return fence_damaged(fence) end

-- Joins the queue, or shows that it is still there: a known token keeps its ticket and with it its place. Before it is
-- known whose turn it is, so that a higher priority counts at once.
if waits and (held or length > 0) then
  local ticket = member and string.sub(member, 1, 16)
  if not ticket then
    local behind = length > 0 and redis.call('ZREVRANGEBYSCORE', queue, score, score, 'LIMIT', '0', '1')[1]
    local after = behind and tonumber(string.sub(behind, 1, 16)) + 1 or 0
    ticket = string.sub('0000000000000000' .. whole(math.max(after, now_us)), -16)
  end
  if member then redis.call('ZREM', queue, member) end
  member = ticket .. token .. string.sub('0000000000000000' .. now, -16) .. ' ' .. wait
  line_add(queue, waiters, member, score)
end

if held then return { 'waiting', redis.call('PTTL', lock), client_of(held), now, redis.call('ZRANK', queue, member) + 1 } end

if length > 0 then
  local place, gone = line_pick(queue, waiters, now_us, token, not last_fence)
  line_forget(queue, waiters, gone)
  if place and place.token ~= token then
    local pttl_ms, holder = 1, ''
    if line_hand_over(lock, queue, waiters, fence, place, last_fence, now_us) then
      pttl_ms, holder = tonumber(place.passed_ms), client_of(place.token)
    end
    if not waits then return { 'busy', pttl_ms, holder, now } end
    return { 'waiting', pttl_ms, holder, now, redis.call('ZRANK', queue, member) + 1 }
  end
end

redis.call('SET', lock, token, 'PX', ttl_ms)
if member then
  line_drop(queue, waiters, { member = member, token = token })
else
  range = '1' -- nobody shares what was not waited for
end
local minted = fenced and fence_mint(fence, last_fence, now_us, tonumber(range)) or '0'
local others = length > 0 and redis.call('ZCARD', queue) > 0
return { 'granted', minted, range, now, others and '1' or '0' }
