-- toy/grant: how a waiter is granted the toy: the lock, its fencing token, and the message.

-- Reads first, then writes: the first waiter that is alive, or `asking`, the caller. Those that are gone leave the queue.
local function toy_next(queue, waiters, now_us, asking)
  local entry, gone = queue_pick(queue, waiters, now_us, asking, function() return true end)
  queue_forget(queue, waiters, gone)
  return entry
end

-- Writes: the lock goes to `entry`, or is deleted when there is none. The message is last and reports what is already
-- written; when it is refused, the grant is undone and the waiter stays in the queue.
local function toy_hand_over(lock, queue, waiters, fence, entry, now_us)
  redis.call('DEL', lock)
  local _, last_fence = fence_read(fence)
  if not entry or not last_fence then return end
  queue_drop(queue, waiters, entry)
  local others = redis.call('ZCARD', queue) > 0 and '1' or '0'
  redis.call('SET', lock, entry.token, 'PX', entry.passed_ms)
  local minted = is_fenced(entry.token) and fence_mint(fence, last_fence, now_us, 1) or '0'
  local message = 'grant ' .. minted .. ' 1 ' .. whole(now_us) .. ' ' .. entry.passed_ms .. ' ' .. others .. ' '
    .. entry.token
  local sent = queue_tell(entry.channel, message)
  if type(sent) == 'table' and sent.err then
    redis.call('DEL', lock)
    queue_add(queue, waiters, entry.member, queue_score(entry.priority))
  end
end
