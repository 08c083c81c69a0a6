-- mutex/position: show a waiter's position in the queue, when it is far from the head. Changes nothing.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- ARGV[1] token      the waiter's
-- ARGV[2] wait       the waiter's request, as in mutex/acquire
--
-- Returns {"waiting", pttl_ms, holder, time_us, position}    as in mutex/acquire: held by another client, and queued
--                                                         with this very request, which is kept for 30 s at least
--         {"ask", time_us}                                in any other case only mutex/acquire can answer
-- Replay  the same answer
-- Writes  nothing
--#include prelude
local lock, queue, waiters = KEYS[1], KEYS[2], KEYS[3]
local token, wait = ARGV[1], ARGV[2]
local WISH_START = 65 -- in an entry (lua/queue.lua)
local KEPT_MS = 30000 -- half of what a poll that marks a waiter as alive gives it

local now = whole(clock_us())
local held, member = redis.pcall('GET', lock), redis.call('HGET', waiters, token)
local rank = type(held) == 'string' and held ~= token and member and string.sub(member, WISH_START) == wait and redis.call('ZRANK', queue, member)
if not rank or redis.call('PTTL', queue) < KEPT_MS or redis.call('PTTL', waiters) < KEPT_MS then return { 'ask', now } end
return { 'waiting', redis.call('PTTL', lock), client_of(held), now, rank + 1 }
