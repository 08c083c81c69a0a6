-- mutex/grant: how a waiter is granted the mutex: the lock, its fencing tokens, and the message.

-- Reads only: the next waiter, as queue_pick finds it. This can judge waiters for the mutex. `unfenced` skips those
-- that want a fencing token.
local function grant_pick(queue, waiters, now_us, asking, unfenced)
  return queue_pick(queue, waiters, now_us, asking, function(entry)
    if not string.match(entry.kind or '', '^%d+$') then return nil end
    return not (unfenced and is_fenced(entry.token))
  end)
end

-- Writes: the lock goes to `entry`, or is deleted when there is none. The message is last and reports what is already
-- written: 'grant', the first reserved fence and how many (the first is 0 without fencing), server time, ttl, whether
-- others are left in the queue, token. When it is refused, the grant is undone and the waiter stays in the queue.
-- True when handed over.
local function grant_hand_over(lock, queue, waiters, fence, entry, last_fence, now_us)
  if not entry then
    redis.call('DEL', lock)
    return false
  end
  queue_drop(queue, waiters, entry)
  local others = redis.call('ZCARD', queue) > 0 and '1' or '0'
  redis.call('SET', lock, entry.token, 'PX', entry.passed_ms)
  local fenced = is_fenced(entry.token)
  local minted = fenced and fence_mint(fence, last_fence, now_us, tonumber(entry.kind)) or '0'
  local message = 'grant ' .. minted .. ' ' .. entry.kind .. ' ' .. whole(now_us) .. ' ' .. entry.passed_ms .. ' '
    .. others .. ' ' .. entry.token
  local sent = queue_tell(entry.channel, message)
  if type(sent) == 'table' and sent.err then
    redis.call('DEL', lock)
    if fenced then fence_lower(fence, tonumber(minted), tonumber(minted)) end
    queue_add(queue, waiters, entry.member, queue_score(entry.priority))
    return false
  end
  return true
end

-- Reads first, then writes: releases `lock` to the next waiter. `used` is the highest number that its holder used of
-- those that were reserved; 0 when all count as used. Even with damage the lock is released: a waiter that cannot get
-- it is told to poll, and learns of the damage. So is a waiter of another kind, which its own scripts grant.
local function grant_pass_on(lock, queue, waiters, fence, used, now_us)
  local first_fence, last_fence = fence_read(fence)
  local unused = last_fence and first_fence <= used and used < last_fence
  if unused then last_fence = used end
  local entry, gone, other, unjudged = grant_pick(queue, waiters, now_us, '', not last_fence)
  queue_forget(queue, waiters, gone)
  local handed_over = grant_hand_over(lock, queue, waiters, fence, entry, last_fence, now_us)
  -- A grant with fencing tokens has taken the unused ones.
  if unused and not (entry and is_fenced(entry.token)) then fence_lower(fence, first_fence, used) end
  if unjudged then
    queue_tell(unjudged.channel, unjudged.token)
  elseif not handed_over and (other or not last_fence) then
    queue_tell_first(queue)
  end
  return handed_over
end
