-- owner/withdraw: take back what owner/publish said, after the wait.
--
-- KEYS[1] owners     hash; of the client whose tokens hold: digest of a token -> what its owner waits for
-- ARGV[1] wait       as it was published; a later wait of the owner stays
-- ARGV[…] held       the digest of each token that the owner held while it waited
--
-- Returns {"withdrawn"}    nothing of that wait is left
-- Replay  the same answer
-- Writes  owners
local owners = KEYS[1]
local wait = ARGV[1]

for i = 2, #ARGV do
  if redis.call('HGET', owners, ARGV[i]) == wait then redis.call('HDEL', owners, ARGV[i]) end
end
return { 'withdrawn' }
