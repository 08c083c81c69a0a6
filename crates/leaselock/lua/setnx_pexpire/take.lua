-- setnx_pexpire/take: take a lock as on servers without SET with NX and PX: value and ttl by two commands.
-- On servers only.
--
-- KEYS[1] lock       string; the holder's token
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] ttl_ms     integer > 0
--
-- Returns {"taken"}               held for ttl_ms
--         {"busy", pttl_ms}       the key exists, for so long; -1: it never expires
-- Replay  a token that holds gets "taken" with its ttl renewed
-- Writes  lock
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], ARGV[2]

if redis.call('SETNX', lock, token) == 0 and redis.call('GET', lock) ~= token then
  return { 'busy', redis.call('PTTL', lock) }
end
redis.call('PEXPIRE', lock, ttl_ms)
return { 'taken' }
