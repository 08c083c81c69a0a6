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

local now_us = clock_us()
local now = whole(now_us)

-- The plain case: nothing is there but perhaps a fence that the clock has passed, of two numbers with 16 digits.
if redis.call('EXISTS', lock, line, waiters) == 0 then
  local last = fencing == '1' and redis.call('GET', fence)
  if not last or #last == 33 and string.byte(last, 17) == 58 and (tonumber(string.sub(last, 18)) or now_us) < now_us then
    redis.call('SET', lock, token, 'PX', ttl_ms)
    if fencing ~= '1' then return { 'granted', '0', '1', now, '0' } end
    redis.call('SET', fence, now .. ':' .. now, 'PX', FENCE_KEPT_MS)
    return { 'granted', now, '1', now, '0' }
  end
end
