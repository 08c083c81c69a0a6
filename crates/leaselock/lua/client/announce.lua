-- client/announce: write the record of a client, once for all its leases.
--
-- KEYS[1] record     string; host, pid, process name and start, one a line; then words with their values
-- ARGV[1] about      the record; '' deletes it
-- ARGV[2] ttl_ms     integer > 0; never shortens
--
-- Returns {"announced"}    other clients can read it
--         {"gone"}         they cannot any more
-- Replay  the same answer
-- Writes  record
local record = KEYS[1]
local about, ttl_ms = ARGV[1], tonumber(ARGV[2])

if about == '' then
  redis.call('DEL', record)
  return { 'gone' }
end
redis.call('SET', record, about, 'PX', math.max(redis.call('PTTL', record), ttl_ms))
return { 'announced' }
