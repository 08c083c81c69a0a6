-- hold/release_alone: give a read or permits back by the lock's key alone. No waiter is granted or told: each finds out by
-- polling.
--
-- KEYS[1] lock       what is held (lua/holds.lua); the only key touched, so it works while slots move
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] mode       's', 'u', or 'w' and how many permits; text behind a space is not for this script
--
-- Returns {"released"}    the hold is given back
--         {"expired"}     there was none: it had expired
--         {"taken"}       another client holds the name alone; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock
--#include prelude member
local lock = KEYS[1]
local token, mode = ARGV[1], ARGV[2]

local now_us = clock_us()
local hold = member_of(mode, token)
local ends, other = of_type(redis.pcall('ZSCORE', lock, hold))
if other then
  -- An upgrade of this read may have been granted before its reader knows.
  if mode ~= 'u' or redis.pcall('GET', lock) ~= token then return { 'taken' } end
  redis.call('DEL', lock)
  return { 'released' }
end
if tonumber(ends or '-1') < now_us then return { 'expired' } end
redis.call('ZREM', lock, hold)
if member_mark(hold) then redis.call('ZREM', lock, 'u') end
-- `usage`, which is out of reach, is counted anew by the script that finds another number of holds.
member_last(lock, now_us)
return { 'released' }
