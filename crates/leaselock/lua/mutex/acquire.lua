-- mutex/acquire: take the mutex if it is free and nobody is ahead; otherwise, if willing, get in line.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] line       sorted set; waiters in order (lua/line.lua)
-- KEYS[3] waiters    hash; token to what its grant needs
-- KEYS[4] fence      string; 'first:last' of the latest grant, kept 7 days
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] passed_ms  integer > 0; the lease when handed over later, short until it is renewed
-- ARGV[4] waits      '1' gets in line when busy, '0' does not
-- ARGV[5] priority   integer; larger goes first
-- ARGV[6] channel    where the caller listens for its grant; '' when it cannot
-- ARGV[7] fencing    '1' mints a fencing token, '0' does not
-- ARGV[8] range      integer > 0; how many fencing tokens a grant reserves that was waited for
--
-- Returns {"granted", fence, range, time_us, others}       held under `token` until ttl_ms from time_us; fence '0' when
--                                                          off, otherwise the first of `range`; others '1' when
--                                                          somebody is left in line
--         {"waiting", pttl_ms, holder, time_us, place}     in line at `place` (1 is next); the holder's remaining time
--                                                          (-1: none is set) and its client ('' when foreign)
--         {"busy", pttl_ms, holder, time_us}               held by another, or owed to somebody in line; not in line
-- Replay  a token that holds gets {"granted", same fence, same range} with its time made whole again; a token in line
--         keeps its place and is marked as alive. Nothing is granted or queued twice.
-- Writes  lock, line, waiters, fence
local lock, line, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, passed_ms, waits = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local priority, channel, fencing, range = ARGV[5], ARGV[6], ARGV[7], ARGV[8] or '1'
local score = priority == '0' and '0' or whole(0 - tonumber(priority))

local now_us = clock_us()
local now = whole(now_us)
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
