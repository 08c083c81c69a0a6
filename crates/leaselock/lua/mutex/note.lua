-- mutex/note: write a note for other clients beside a lease, or delete it.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] why        string; the holder's token and its note, shown only while that token holds
-- ARGV[1] token      the holder's token
-- ARGV[2] text       the note; '' deletes it
-- ARGV[3] ttl_ms     integer > 0; as long as the lease
--
-- Returns {"noted"}     the note is written
--         {"erased"}    it is not: deleted, or the token does not hold, and another client's note was not touched
-- Replay  the same answer
-- Writes  why
local lock, why = KEYS[1], KEYS[2]
local token, text, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

if text ~= '' and redis.pcall('GET', lock) == token then
  redis.call('SET', why, token .. text, 'PX', ttl_ms)
  return { 'noted' }
end
if string.sub(redis.call('GET', why) or '', 1, #token) == token then redis.call('DEL', why) end
return { 'erased' }
