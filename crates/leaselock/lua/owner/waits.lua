-- owner/waits: read what the owners of these holds wait for. Changes nothing.
--
-- KEYS[1] owners     hash; of the client whose tokens hold: digest of a token -> what its owner waits for
-- ARGV[…] held       the digest of each token
--
-- Returns {"waits", waits}    for each token what owner/publish said; '' when its owner does not wait
-- Replay  the same answer
-- Writes  nothing
--#include prelude
local owners = KEYS[1]

local waits = of_type(redis.pcall('HMGET', owners, unpack(ARGV))) or {}
for i = 1, #ARGV do
  waits[i] = waits[i] or ''
end
return { 'waits', waits }
