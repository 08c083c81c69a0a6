-- mutex/inspect: show which client holds the mutex, why, and which clients wait. Changes nothing.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] fence      string; 'first:last' of the latest grant
-- KEYS[4] why        string; the holder's token and its note
--
-- Returns {"free", time_us, queue, damaged}     queue: client, priority, client, priority, …; damaged: name and key of
--                                              each damaged side key, 'fence' or 'queue'
--         {"held", time_us, queue, value, pttl_ms, fence, why, damaged}    value: the holder's token, ours or foreign;
--                                              pttl_ms -1: it never expires; fence: the first of its numbers, '0': this
--                                              lease has none, or it is damaged; why: '' for another type
--         {"other", time_us, queue, type, damaged}    the key holds a value that is not a lock
-- Replay  the same answer
-- Writes  nothing
--#include prelude fence queue
local lock, queue, fence, why = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local NOTE_MAX = 1024 -- bytes that are shown

local now_us = clock_us()
local listed, damaged = {}, {}
local entries, other = queue_read(queue, 0, HEAD_MAX - 1)
if other then damaged[1], damaged[2] = 'queue', queue end
if not fence_read(fence) then damaged[#damaged + 1], damaged[#damaged + 2] = 'fence', fence end
for _, entry in ipairs(entries) do
  listed[#listed + 1] = client_of(entry.token)
  listed[#listed + 1] = entry.priority
end
local kind = redis.call('TYPE', lock)
kind = type(kind) == 'table' and kind.ok or kind
if kind == 'none' then return { 'free', whole(now_us), listed, damaged } end
if kind ~= 'string' then return { 'other', whole(now_us), listed, kind, damaged } end
local held = redis.call('GET', lock)
local noted = of_type(redis.pcall('GET', why)) or ''
noted = string.sub(noted, 1, #held) == held and string.sub(noted, #held + 1, #held + NOTE_MAX) or ''
return { 'held', whole(now_us), listed, held, redis.call('PTTL', lock), whole((fence_of(held, fence))), noted, damaged }
