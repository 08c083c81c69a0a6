-- mutex/acquire, behind its fragments: every case but the plain one.
local score = priority == '0' and '0' or whole(0 - tonumber(priority))
local held = redis.call('GET', lock)

if held == token then
  if redis.call('PTTL', lock) < tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms) end
  local first_fence, last_fence = 0, 0
  if fencing == '1' then
    first_fence, last_fence = fence_read(fence)
    if first_fence == 0 then first_fence, last_fence = tonumber(fence_mint(fence, 0, now_us, 1)), now_us end
    range = whole(last_fence - first_fence + 1)
  end
  return { 'granted', whole(first_fence), range, now, redis.call('ZCARD', line) > 0 and '1' or '0' }
end
if held and not waits then return { 'busy', redis.call('PTTL', lock), client_of(held), now } end

local waiting = line_entry(token, redis.call('HGET', waiters, token))
local length = redis.call('ZCARD', line)
local _, last_fence = 0, 0
if not held then _, last_fence = fence_read(fence) end

-- Gets in line, or shows that it is still there: a known token keeps its ticket and with it its place. Before it is
-- known whose turn it is, so that a higher priority counts at once.
if waits and (held or length > 0) then
  local ticket = waiting and waiting.ticket
  if not ticket then
    local behind = length > 0 and redis.call('ZREVRANGEBYSCORE', line, score, score, 'LIMIT', '0', '1')[1]
    local after = behind and tonumber(string.sub(behind, 1, 16)) + 1 or 0
    ticket = string.sub('0000000000000000' .. whole(math.max(after, now_us)), -16)
    waiting = { token = token, member = ticket .. token }
  end
  local looked_ms = string.sub(now, 1, -4)
  redis.call('HSET', waiters, token, passed_ms .. ' ' .. fencing .. ' ' .. looked_ms .. ' ' .. ticket .. ' ' .. priority
    .. ' ' .. range .. ' ' .. channel)
  redis.call('ZADD', line, score, waiting.member)
  line_keep(line, waiters)
end

if held then
  local place = length == 0 and 1 or redis.call('ZRANK', line, waiting.member) + 1
  return { 'waiting', redis.call('PTTL', lock), client_of(held), now, place }
end

if length > 0 then
  local place, gone = line_pick(line, waiters, math.floor(now_us / 1000), token)
  for _, absent in ipairs(gone) do
    line_drop(line, waiters, absent)
  end
  if place and place.token ~= token then
    local pttl_ms, holder = 1, ''
    if line_hand_over(lock, line, waiters, fence, place, last_fence, now_us) then
      pttl_ms, holder = tonumber(place.ttl_ms), client_of(place.token)
    end
    if not waits then return { 'busy', pttl_ms, holder, now } end
    return { 'waiting', pttl_ms, holder, now, redis.call('ZRANK', line, waiting.member) + 1 }
  end
end

redis.call('SET', lock, token, 'PX', ttl_ms)
if waiting then
  line_drop(line, waiters, waiting)
else
  range = '1' -- nobody shares what was not waited for
end
local minted = fencing == '1' and fence_mint(fence, last_fence, now_us, tonumber(range)) or '0'
local others = length > 0 and redis.call('ZCARD', line) > 0
return { 'granted', minted, range, now, others and '1' or '0' }
