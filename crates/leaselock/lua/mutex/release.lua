-- mutex/release: give the mutex back as its holder; the next in line has it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] line       sorted set; waiters in order (lua/line.lua)
-- KEYS[3] waiters    hash; token to what its grant needs
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] used       the highest fencing token in use, of those that were reserved; '0' when none is to be given back
--
-- Returns {"released", time_us}    free, or already the next waiter's
--         {"expired", time_us}     nothing was there: the lease had run out or was deleted
--         {"taken", time_us}       another holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, line, waiters, fence
local lock, line, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, used = ARGV[1], ARGV[2] or '0'

local now = whole(clock_us())
local held = redis.call('GET', lock)
if not held then return { 'expired', now } end
if held ~= token then return { 'taken', now } end

-- The plain case: nobody waits, and no reserved number is left.
if redis.call('EXISTS', line) == 0 and (used == '0' or redis.call('GET', fence) == used .. ':' .. used) then
  redis.call('DEL', lock)
  return { 'released', now }
end
