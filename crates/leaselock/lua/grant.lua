-- grant: how a request of any kind is granted: at once, from the queue, or when a hold is given back.
local SERVED_MAX = 64 -- waiters that one call grants

-- The last fencing token, which is read when it is first needed; nil when the fence is damaged.
local function grant_fence(h)
  if not h.fence_known then
    h.first_fence, h.last_fence, h.fence_shared = fence_read(h.fence)
    h.fence_known = true
  end
  return h.last_fence
end

-- Writes the fencing token of a new hold, and returns it as text; '0' without fencing. Readers that hold at the same
-- time have one number. The first of them has a new one, also behind other readers: a failover may have lost the writer
-- between them, whose number was larger. Each holder of permits has its own.
local function grant_mint(h, kind, token)
  local reads = kind == 's' or kind == 'u'
  if not is_fenced(token) then
    -- It has no number, and those who join it must not have that of readers before it.
    if reads and not h.is_read and grant_fence(h) and h.fence_shared then
      fence_lower(h.fence, h.first_fence, h.last_fence)
      h.fence_shared = false
    end
    h.is_read = h.is_read or reads
    return '0'
  end
  local last = grant_fence(h)
  if not reads then
    local minted = fence_mint(h.fence, last, h.now_us, tonumber(kind) or 1)
    h.last_fence, h.fence_shared = tonumber(minted) + (tonumber(kind) or 1) - 1, false
    if holds_weight(kind) then redis.call('HSET', h.usage, member_of(kind, token), minted) end
    return minted
  end
  if h.fence_shared and h.is_read then
    redis.call('PEXPIRE', h.fence, FENCE_KEPT_MS)
  else
    h.last_fence, h.fence_shared = tonumber(fence_mint(h.fence, last, h.now_us, 1, 's')), true
    h.is_read = true
  end
  return whole(h.last_fence)
end

-- Writes the hold that was reserved for `entry`, and returns its fencing token. An upgrade lasts as long as its read would
-- have at least: the reader relies on that time until it learns of the upgrade.
local function grant_write(h, entry)
  if entry.kind == 'x' then
    local ends = holds_has(h, 'u', entry.token)
    entry.passed_ms = whole(math.max(tonumber(entry.passed_ms), holds_until(h, ends)))
  end
  if tonumber(entry.kind) or entry.kind == 'x' then
    redis.call('SET', h.lock, entry.token, 'PX', entry.passed_ms)
  else
    holds_put(h, member_of(entry.kind, entry.token), tonumber(entry.passed_ms))
  end
  return grant_mint(h, entry.kind, entry.token)
end

-- Writes: the message of a grant, after all that it reports: 'grant', the first reserved fencing token (0 without
-- fencing) and how many, server time, ttl, whether others are left in the queue, token. When it is refused, the grant
-- is undone and the waiter stays in the queue.
local function grant_tell(h, queue, waiters, entry, minted)
  local others = redis.call('ZCARD', queue) > 0 and '1' or '0'
  local message = 'grant ' .. minted .. ' ' .. (tonumber(entry.kind) and entry.kind or '1') .. ' ' .. whole(h.now_us) .. ' '
    .. entry.passed_ms .. ' ' .. others .. ' ' .. entry.token
  local sent = queue_tell(entry.channel, message)
  if type(sent) ~= 'table' or not sent.err then return true end
  holds_remove(h, entry.kind, entry.token)
  if tonumber(entry.kind) and minted ~= '0' then fence_lower(h.fence, tonumber(minted), tonumber(minted)) end
  if entry.kind == 'x' then
    holds_put(h, member_of('x', entry.token), tonumber(entry.passed_ms))
    h.upgradable, h.count = true, 1
  end
  queue_add(queue, waiters, entry.member, queue_score(entry.priority, entry.kind))
  return false
end

-- Reads first, then writes: grants the waiters from the head on as long as each fits beside those before it. A waiter
-- that does not fit keeps those behind it waiting, so that none is overtaken for ever. One that can never fit leaves the
-- queue: it asks for more permits than there are, or to upgrade a read that is over. One that this call cannot judge, and
-- the next one after the most that one call grants, are told to poll, by their token alone. `asking` is the caller: it is
-- alive, and gets `ttl_ms`. Returns its fencing token if it was granted; whether a waiter is left in front that is alive,
-- or was not read; whether any waiter was granted; whether `waiters` is damaged.
local function grant_serve(h, queue, waiters, asking, ttl_ms)
  local grants, never, told, left = {}, {}, nil, false
  local lost, damaged, more = queue_visit(queue, waiters, asking, function(entry)
    if is_fenced(entry.token) and not grant_fence(h) then return false end -- its own call reports the damage
    local is_too_many = h.usage and h.permits > 0 and (holds_weight(entry.kind) or 0) > h.permits
    if is_too_many or entry.kind == 'x' and not holds_has(h, 'u', entry.token) then
      never[#never + 1] = entry
      return false
    end
    local fits = holds_fit(h, entry.kind)
    if not fits or #grants == SERVED_MAX then
      left = true
      told = fits ~= false and entry or nil
      return true
    end
    if entry.token == asking then entry.passed_ms = ttl_ms end
    holds_reserve(h, entry.kind, entry.token)
    grants[#grants + 1] = entry
    return holds_full(h)
  end)
  queue_set_aside(queue, waiters, lost, h.now_us)
  for _, entry in ipairs(never) do
    queue_drop(queue, waiters, entry)
    if entry.token ~= asking then queue_tell(entry.channel, entry.token) end
  end
  local mine, any
  for _, entry in ipairs(grants) do
    queue_drop(queue, waiters, entry)
    local minted = grant_write(h, entry)
    if entry.token == asking then
      mine = minted
    elseif grant_tell(h, queue, waiters, entry, minted) then
      any = true
    end
  end
  if told and told.token ~= asking then queue_tell(told.channel, told.token) end
  if more then queue_tell_alive(queue, waiters, asking) end
  return mine, left or more, any, damaged
end

-- The answer to a token that holds already: its lease is made whole, and its fencing token is the same.
local function grant_again(h, queue, request, ends)
  local token, kind, ttl_ms = request.token, request.kind, tonumber(request.ttl_ms)
  local fenced, first, range = is_fenced(token), '0', tonumber(kind) and kind or '1'
  if fenced and not grant_fence(h) then return fence_damaged(h.fence) end
  if h.exclusive then
    if redis.call('PTTL', h.lock) < ttl_ms then redis.call('PEXPIRE', h.lock, request.ttl_ms) end
    if fenced and h.first_fence == 0 then
      first, range = fence_mint(h.fence, 0, h.now_us, 1), '1'
    elseif fenced then
      first, range = whole(h.first_fence), whole(h.last_fence - h.first_fence + 1)
    end
  else
    local member = member_of(kind, token)
    if ends < h.now_us + ttl_ms * 1000 then holds_put(h, member, ttl_ms) end
    first = fenced and h.usage and redis.call('HGET', h.usage, member) or grant_mint(h, kind, token)
  end
  local others = (of_type(redis.pcall('ZCARD', queue)) or 0) > 0 and '1' or '0'
  return { 'granted', first, range, whole(h.now_us), others }
end

-- Acquires, or joins the queue: `request` has token, ttl_ms, kind, and wait as in mutex/acquire.
local function grant_acquire(h, queue, waiters, request)
  local token, kind, wait, now = request.token, request.kind, request.wait, whole(h.now_us)
  local fenced, waits = is_fenced(token), request.wait ~= ''
  if h.strange then return redis.call('GET', h.lock) end -- which the server refuses
  local ends = holds_has(h, kind, token)
  if ends then return grant_again(h, queue, request, ends) end
  if h.exclusive and not waits then return { 'busy', holds_rest_ms(h, kind, token), holds_holder(h), now } end

  local length, other_queue = of_type(redis.pcall('ZCARD', queue))
  if other_queue then return queue_damaged(queue) end
  local member, other_waiters = queue_known(waiters, token)
  local fits = holds_fit(h, kind)
  if other_waiters and (not fits or length > 0) then return queue_damaged(waiters) end
  if fenced and not h.exclusive and not grant_fence(h) then return fence_damaged(h.fence) end

  -- Joins the queue before the next waiter is chosen, so that a higher priority counts at once.
  if waits and (not fits or length > 0) then member = queue_join(queue, waiters, token, member, wait, h.now_us) end
  local left
  if not h.exclusive and (length > 0 or member) then
    local minted
    minted, left = grant_serve(h, queue, waiters, token, request.ttl_ms)
    if minted then
      return { 'granted', minted, tonumber(kind) and kind or '1', now, redis.call('ZCARD', queue) > 0 and '1' or '0' }
    end
  end
  local rank = waits and member and redis.call('ZRANK', queue, member)
  if rank then return { 'waiting', holds_rest_ms(h, kind, token), holds_holder(h), now, rank + 1 } end
  if left or not holds_fit(h, kind) then return { 'busy', holds_rest_ms(h, kind, token), holds_holder(h), now } end

  if tonumber(kind) and not member then kind = '1' end -- no other task shares a grant without a wait
  holds_reserve(h, kind, token)
  local minted = grant_write(h, { token = token, kind = kind, passed_ms = request.ttl_ms })
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  local others = length > 0 and redis.call('ZCARD', queue) > 0
  return { 'granted', minted, tonumber(kind) and kind or '1', now, others and '1' or '0' }
end

-- Gives back what the token holds, and grants the waiters that fit then. `used` is the highest number that an exclusive
-- holder used of those that were reserved; 0 when all count as used. Even with damage the hold is given back: a waiter
-- that cannot be granted is told to poll, and learns of the damage.
local function grant_give_back(h, queue, waiters, kind, token, used)
  holds_remove(h, kind, token)
  local last = grant_fence(h)
  if last and tonumber(kind) and h.first_fence <= used and used < last then
    h.last_fence = used
    fence_lower(h.fence, h.first_fence, used)
  end
  local _, _, any, damaged = grant_serve(h, queue, waiters, '')
  if not any and (damaged or not last) then queue_tell_first(queue) end
end

-- Undoes an acquisition: leaves the queue, and gives back what was granted. A waiter that leaves may have kept others
-- from being granted. Behind an exclusive holder that wakes no waiter only the first one polls often, so the new first
-- one is told that it is.
local function grant_cancel(h, queue, waiters, kind, token, used)
  local member = queue_known(waiters, token)
  local was_first = member and of_type(redis.pcall('ZRANK', queue, member)) == 0
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  if holds_has(h, kind, token) then
    grant_give_back(h, queue, waiters, kind, token, used)
    return { 'released', whole(h.now_us) }
  end
  if was_first and h.exclusive then
    queue_tell_first(queue)
  elseif member then
    grant_serve(h, queue, waiters, '')
  end
  return { member and 'left' or 'absent', whole(h.now_us) }
end
