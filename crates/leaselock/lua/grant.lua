-- grant: how a request of any kind is granted: at once, from the queue, or when a hold is given back.
local SERVED_MAX = 64 -- waiters that one call grants

-- Writes the fencing token of a new hold, and returns it as text and how many there are from it on; '0' without fencing;
-- nil when it is refused, after which nothing may be granted. Readers that hold at the same time have one number, and the
-- first of them a new one. Each holder of permits has its own.
local function grant_mint(h, kind, token)
  local reads = kind == 's' or kind == 'u'
  if not is_fenced(token) then return '0', tonumber(kind) or 1 end -- as many turns, without numbers
  if reads and h.shared then return h.shared, 1 end
  local minted, refusal = fence_mint(h.fence)
  h.refusal = h.refusal or refusal
  if not minted then return nil end
  if reads then h.shared = minted end
  return minted, fence_reserve(h.fence, minted, tonumber(kind) or 1, h.now_us)
end

-- Writes the hold that was reserved for `entry`, under its fencing token. An upgrade lasts as long as its read would have
-- at least: the reader relies on that time until it learns of the upgrade.
local function grant_write(h, entry)
  local kind, token = entry.kind, entry.token
  if kind == 'x' then
    local ends = holds_has(h, 'u', token)
    entry.passed_ms = whole(math.max(tonumber(entry.passed_ms), holds_until(h, ends)))
  end
  if tonumber(kind) or kind == 'x' then
    redis.call('SET', h.lock, token, 'PX', entry.passed_ms)
    entry.shared, h.shared = h.shared, nil -- for the readers, if the upgrade is undone
    return
  end
  holds_put(h, member_of(kind, token), tonumber(entry.passed_ms))
  if holds_weight(kind) then
    redis.call('HSET', h.usage, member_of(kind, token), entry.minted)
    redis.call('PEXPIRE', h.usage, USAGE_KEPT_MS) -- a hand-over may leave the count as it was (holds_close)
  end
end

-- Writes: the message of a grant, after all that it reports: 'grant', the first reserved fencing token (0 without
-- fencing) and how many, server time, ttl, whether others are left in the queue, token. When it is refused, the grant
-- is undone and the waiter stays in the queue.
local function grant_tell(h, queue, waiters, entry)
  local others = redis.call('ZCARD', queue) > 0 and '1' or '0'
  local message = 'grant ' .. entry.minted .. ' ' .. entry.range .. ' ' .. whole(h.now_us) .. ' ' .. entry.passed_ms .. ' '
    .. others .. ' ' .. entry.token
  local sent = queue_tell(entry.channel, message)
  if type(sent) ~= 'table' or not sent.err then return true end
  holds_remove(h, entry.kind, entry.token)
  if entry.kind == 'x' then
    h.shared = entry.shared
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
-- alive, and gets `ttl_ms`. Returns its entry if it was granted; whether a waiter is left in front that is alive, or was not
-- read; whether any waiter was granted; whether `waiters` is damaged. A waiter whose fencing token is refused stays: its own
-- call reports that.
local function grant_serve(h, queue, waiters, asking, ttl_ms)
  local grants, never, told, left = {}, {}, nil, false
  local lost, damaged, more = queue_visit(queue, waiters, asking, function(entry)
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
    entry.minted, entry.range = grant_mint(h, entry.kind, entry.token)
    if not entry.minted then return false end
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
    grant_write(h, entry)
    if entry.token == asking then
      mine = entry
    elseif grant_tell(h, queue, waiters, entry) then
      any = true
    end
  end
  if told and told.token ~= asking then queue_tell(told.channel, told.token) end
  if more then queue_tell_alive(queue, waiters, asking) end
  return mine, left or more, any, damaged
end

local function grant_answer(h, queue, entry)
  local others = (of_type(redis.pcall('ZCARD', queue)) or 0) > 0 and '1' or '0'
  return { 'granted', entry.minted, whole(entry.range), whole(h.now_us), others }
end

-- The answer to a token that holds already: its lease is made whole, and its fencing token is the same. While one holds
-- alone no other client mints, so its number is the latest; of several numbers it is the last, and the token has that one
-- alone.
local function grant_again(h, queue, request, ends)
  local token, kind, ttl_ms = request.token, request.kind, tonumber(request.ttl_ms)
  local member = not h.exclusive and member_of(kind, token)
  local minted = '0'
  if is_fenced(token) then
    minted = h.exclusive and fence_last(h.fence) or h.usage and redis.call('HGET', h.usage, member)
    if not minted or minted == '0' then -- it was lost
      minted = grant_mint(h, h.exclusive and '1' or kind, token)
      if not minted then return h.refusal end
      if h.usage then redis.call('HSET', h.usage, member, minted) end
    end
  end
  if not h.exclusive then
    if ends < h.now_us + ttl_ms * 1000 then holds_put(h, member, ttl_ms) end
  elseif redis.call('PTTL', h.lock) < ttl_ms then
    redis.call('PEXPIRE', h.lock, request.ttl_ms)
  end
  return grant_answer(h, queue, { minted = minted, range = 1 })
end

-- Acquires, or joins the queue: `request` has token, ttl_ms, kind, and wait as in mutex/acquire.
local function grant_acquire(h, queue, waiters, request)
  local token, kind, wait, now = request.token, request.kind, request.wait, whole(h.now_us)
  local waits = wait ~= ''
  if h.strange then return redis.call('GET', h.lock) end -- which the server refuses
  local ends = holds_has(h, kind, token)
  if ends then return grant_again(h, queue, request, ends) end
  if h.exclusive and not waits then return { 'busy', holds_rest_ms(h, kind, token), holds_holder(h), now } end

  local length, other_queue = of_type(redis.pcall('ZCARD', queue))
  if other_queue then return queue_damaged(queue) end
  local member, other_waiters = queue_known(waiters, token)
  local fits = holds_fit(h, kind)
  if other_waiters and (not fits or length > 0) then return queue_damaged(waiters) end

  -- Joins the queue before the next waiter is chosen, so that a higher priority counts at once.
  if waits and (not fits or length > 0) then member = queue_join(queue, waiters, token, member, wait, h.now_us) end
  local mine, left
  if not h.exclusive and (length > 0 or member) then
    mine, left = grant_serve(h, queue, waiters, token, request.ttl_ms)
    if mine then return grant_answer(h, queue, mine) end
  end
  if h.refusal and is_fenced(token) then
    if member then queue_drop(queue, waiters, { member = member, token = token }) end
    return h.refusal
  end
  local rank = waits and member and redis.call('ZRANK', queue, member)
  if rank then return { 'waiting', holds_rest_ms(h, kind, token), holds_holder(h), now, rank + 1 } end
  if left or not holds_fit(h, kind) then return { 'busy', holds_rest_ms(h, kind, token), holds_holder(h), now } end

  if tonumber(kind) and not member then kind = '1' end -- no other task shares a grant without a wait
  mine = { token = token, kind = kind, passed_ms = request.ttl_ms }
  mine.minted, mine.range = grant_mint(h, kind, token)
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  if not mine.minted then return h.refusal end
  holds_reserve(h, kind, token)
  grant_write(h, mine)
  return grant_answer(h, queue, mine)
end

-- Gives back what the token holds, and grants the waiters that fit then. Even with damage the hold is given back: a waiter
-- that cannot be granted is told to poll, and learns of the damage.
local function grant_give_back(h, queue, waiters, kind, token)
  holds_remove(h, kind, token)
  local _, _, any, damaged = grant_serve(h, queue, waiters, '')
  if not any and (damaged or h.refusal) then queue_tell_first(queue) end
end

-- Undoes an acquisition: leaves the queue, and gives back what was granted, also when it was broken. A waiter that leaves
-- may have kept others from being granted. Behind an exclusive holder that wakes no waiter only the first one polls
-- often, so the new first one is told that it is.
local function grant_cancel(h, queue, waiters, kind, token)
  local member = queue_known(waiters, token)
  local was_first = member and of_type(redis.pcall('ZRANK', queue, member)) == 0
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
--#inline broken
  for _, hold in ipairs({ token, broken }) do
    if holds_has(h, kind, hold) then
      grant_give_back(h, queue, waiters, kind, hold)
      return { 'released', whole(h.now_us) }
    end
  end
  if was_first and h.exclusive then
    queue_tell_first(queue)
  elseif member then
    grant_serve(h, queue, waiters, '')
  end
  return { member and 'left' or 'absent', whole(h.now_us) }
end
