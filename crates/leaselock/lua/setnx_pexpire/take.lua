-- setnx_pexpire/take: take a lock as servers did it that had no SET with NX and PX: value and time by two commands.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"taken"}               held for ttl_ms
--         {"busy", pttl_ms}       something is there, held for so long; -1: it never ends
-- Replay  a token that holds gets "taken" with its time made whole again
-- Writes  lock
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], ARGV[2]

if redis.call('SETNX', lock, token) == 0 and redis.call('GET', lock) ~= token then
  return { 'busy', redis.call('PTTL', lock) }
end
redis.call('PEXPIRE', lock, ttl_ms)
return { 'taken' }
