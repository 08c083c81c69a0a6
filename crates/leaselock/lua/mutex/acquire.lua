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
--
-- Returns {"granted", fence, time_us}                      held under `token` until ttl_ms from time_us; fence '0' when off
--         {"waiting", pttl_ms, holder, time_us, place}     in line at `place` (1 is next); the holder's remaining time
--                                                          (-1: none is set) and its client ('' when foreign)
--         {"busy", pttl_ms, holder, time_us}               held by another, or owed to somebody in line; not in line
-- Replay  a token that holds gets {"granted", same fence} with its time made whole again; a token in line keeps its
--         place and is marked as alive. Nothing is granted or queued twice.
-- Writes  lock, line, waiters, fence
local lock, line, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, passed_ms, waits = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local priority, channel, fencing = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local score = 0 - priority -- not -priority, which would be -0

local now_us = clock_us()
local now_ms = math.floor(now_us / 1000)
local held = redis.call('GET', lock)
local first_fence, last_fence = 0, 0
if fencing == '1' or not held then first_fence, last_fence = fence_read(fence) end
local waiting = line_entry(token, redis.call('HGET', waiters, token))
local length = redis.call('ZCARD', line)

-- Gets in line, or shows that it is still there: a known token keeps its ticket and with it its place.
local function enqueue()
  local ticket = waiting and waiting.ticket
  if not ticket then
    local behind = redis.call('ZREVRANGEBYSCORE', line, score, score, 'LIMIT', 0, 1)[1]
    ticket = string.format('%016.0f', math.max(behind and tonumber(string.sub(behind, 1, 16)) + 1 or 0, now_us))
  end
  local entry = table.concat({ whole(passed_ms), fencing, whole(now_ms), ticket, whole(priority), channel }, ' ')
  waiting = line_entry(token, entry)
  redis.call('HSET', waiters, token, entry)
  redis.call('ZADD', line, score, waiting.member)
  line_keep(line, waiters)
end

local function answer_busy(pttl_ms, holder)
  if not waits then return { 'busy', pttl_ms, client_of(holder), whole(now_us) } end
  return { 'waiting', pttl_ms, client_of(holder), whole(now_us), redis.call('ZRANK', line, waiting.member) + 1 }
end

if held == token then
  if redis.call('PTTL', lock) < ttl_ms then redis.call('PEXPIRE', lock, ttl_ms) end
  if fencing == '1' and first_fence == 0 then first_fence = tonumber(fence_mint(fence, last_fence, now_us)) end
  return { 'granted', whole(first_fence), whole(now_us) }
end

if held then
  if waits then enqueue() end
  return answer_busy(redis.call('PTTL', lock), held)
end

if length > 0 then
  if waits then enqueue() end -- first, so that a higher priority counts at once
  local place, gone = line_pick(line, waiters, now_ms, token)
  for _, absent in ipairs(gone) do
    line_drop(line, waiters, absent)
  end
  if place and place.token ~= token then
    if line_hand_over(lock, line, waiters, fence, place, last_fence, now_us) then
      return answer_busy(place.ttl_ms, place.token)
    end
    return answer_busy(1, '')
  end
end

redis.call('SET', lock, token, 'PX', ttl_ms)
if waiting then line_drop(line, waiters, waiting) end
local minted = fencing == '1' and fence_mint(fence, last_fence, now_us) or '0'
return { 'granted', minted, whole(now_us) }
