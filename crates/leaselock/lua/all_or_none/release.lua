-- all_or_none/release: release several locks; one that another client holds by now is left alone.
-- On servers only.
--
-- KEYS[…] locks      strings; the holder's value
-- ARGV[1] value      the caller's proof of ownership, and its note behind it
--
-- Returns {"released"}    all were the caller's, and are free
--         {"expired"}     one was not there any more; the others are released
--         {"taken"}       another client holds one; the others are released
-- Replay  "expired" or "taken": the first call did the work
-- Writes  locks
local value = ARGV[1]

local gone, taken = false, false
for _, lock in ipairs(KEYS) do
  local held = redis.call('GET', lock)
  if held == value then
    redis.call('DEL', lock)
  else
    gone, taken = gone or not held, taken or held
  end
end
if taken then return { 'taken' } end
return { gone and 'expired' or 'released' }
