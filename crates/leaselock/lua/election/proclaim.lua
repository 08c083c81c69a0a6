-- election/proclaim: write who leads, as the holder of the mutex, and tell the followers.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] leader     string; who leads (lua/leader.lua)
-- ARGV[1] token      the caller's proof of ownership
-- ARGV[2] value      what followers read; any text
-- ARGV[3] term       integer > 0; the fencing token of the caller's lease
-- ARGV[4] kept_ms    integer > 0; how long the record is kept. It is shown only while the token holds
-- ARGV[5] channel    where the followers listen
--
-- Returns {"proclaimed"}    the followers read the value from now on
--         {"expired"}       there is no lock: the lease expired or was deleted
--         {"taken"}         another client holds it
-- Replay  the same answer; followers are told once of the same value
-- Writes  leader
--#include prelude broadcast leader
local lock, leader = KEYS[1], KEYS[2]
local token, value, term, kept_ms, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local held, is_set = of_type(redis.pcall('GET', lock)) -- of readers or permits (lua/holds.lua)
if is_set then return { 'taken' } end
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
local record = leader_text(token, channel, term, value)
local is_news = of_type(redis.pcall('GET', leader)) ~= record
redis.call('SET', leader, record, 'PX', kept_ms)
if is_news then broadcast(channel) end
return { 'proclaimed' }
