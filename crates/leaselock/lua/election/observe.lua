-- election/observe: read who leads. Changes nothing.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] leader     string; who leads (lua/leader.lua)
--
-- Returns {"leads", value, term, client, pttl_ms, time_us}    the holder has proclaimed this value; term: its fencing
--                                                             token; pttl_ms: what remains of its lease
--         {"silent", pttl_ms, time_us}                        the name is held, and its holder has proclaimed nothing;
--                                                             pttl_ms -1: it never expires
--         {"vacant", time_us}                                 no client holds the name
-- Replay  the same answer
-- Writes  nothing
--#include prelude leader
local lock, leader = KEYS[1], KEYS[2]

local now = whole(clock_us())
local held, is_set = of_type(redis.pcall('GET', lock)) -- of readers or permits (lua/holds.lua)
if not held and not is_set then return { 'vacant', now } end
local pttl_ms = redis.call('PTTL', lock)
if is_set then return { 'silent', pttl_ms, now } end
local its, _, term, value = leader_read(leader)
if its ~= held then return { 'silent', pttl_ms, now } end
return { 'leads', value, term, client_of(held), pttl_ms, now }
