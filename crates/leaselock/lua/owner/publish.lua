-- owner/publish: say what an owner waits for, beside each of its holds, so that others find a circle.
--
-- KEYS[1] owners     hash; of the client whose tokens hold: digest of a token -> what its owner waits for
-- ARGV[1] wait       the owner, the lock, the digest of the waiting token, the label; one a line
-- ARGV[…] held       the digest of each token that the owner holds
--
-- Returns {"published"}    others see it for a minute
-- Replay  the same answer
-- Writes  owners
local owners = KEYS[1]
local wait = ARGV[1]

local WAIT_KEPT_MS = '60000' -- a waiter writes it again with each check

for i = 2, #ARGV do
  redis.call('HSET', owners, ARGV[i], wait)
end
redis.call('PEXPIRE', owners, WAIT_KEPT_MS)
return { 'published' }
