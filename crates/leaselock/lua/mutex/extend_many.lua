-- mutex/extend_many: extend many leases, each for itself.
--
-- KEYS[…] locks      the only keys touched
-- ARGV[1] ttl_ms     integer > 0; for each
-- ARGV[…] tokens     each holder's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, letters}   one letter for each item, in the order of the locks:
--           x  extended: held for at least ttl_ms from time_us
--           e  expired: there is no lock
--           -  any other case: nothing was done, use mutex/extend
-- Replay  harmless: the same answers as long as the tokens hold
-- Writes  locks
--#include prelude many
local ttl_ms = tonumber(ARGV[1])

local now = whole(clock_us())
local answers = many_letters(KEYS, ARGV, 1, 'x', '-')

for i = 1, #answers do
  if answers[i] == 'x' then
    local pttl_ms = redis.pcall('PTTL', KEYS[i])
    local whole_again = type(pttl_ms) == 'number' and pttl_ms >= ttl_ms -- -1 is not: a lease always expires
    if not whole_again and redis.pcall('PEXPIRE', KEYS[i], ttl_ms) ~= 1 then answers[i] = '-' end
  end
end
return { 'answered', now, table.concat(answers) }
