-- all_or_none/take: take several locks at once, each a plain string with the same value, or none of them.
-- On servers only.
--
-- KEYS[…] locks      strings; the holder's value
-- ARGV[1] value      the caller's proof of ownership, and its note behind it
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"taken"}               all are held for ttl_ms
--         {"busy", pttl_ms}       another client holds some of them, for so long; -1: one never expires
-- Replay  a value that holds gets "taken" with its ttl renewed
-- Writes  locks
local value, ttl_ms = ARGV[1], ARGV[2]

local longest_ms
for _, lock in ipairs(KEYS) do
  local held = redis.call('GET', lock)
  if held and held ~= value then
    local pttl_ms = redis.call('PTTL', lock)
    if longest_ms ~= -1 and (pttl_ms == -1 or pttl_ms > (longest_ms or 0)) then longest_ms = pttl_ms end
    longest_ms = longest_ms or 0
  end
end
if longest_ms then return { 'busy', longest_ms } end
for _, lock in ipairs(KEYS) do
  redis.call('SET', lock, value, 'PX', ttl_ms)
end
return { 'taken' }
