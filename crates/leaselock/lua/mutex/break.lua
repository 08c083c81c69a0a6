-- mutex/break: take the mutex away as an operator; the next in line has it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] line       sorted set; waiters in order (lua/line.lua)
-- KEYS[3] waiters    hash; token to what its grant needs
-- KEYS[4] fence      string; 'first:last' of the latest grant
-- ARGV[1] only       the fencing token that the holder must have; '' for any
-- ARGV[2] foreign    '1' breaks a lock of another library too, '0' does not
--
-- Returns {"broken", holder, fence, time_us}   taken away from this client ('' when foreign); fence '0': it had none
--         {"free", time_us}                    nobody held it
--         {"foreign", time_us}                 another library holds it; nothing was changed
--         {"changed", fence, time_us}          the holder has another fencing token by now ('0': none); nothing was changed
-- Replay  breaks whoever holds then: name the fencing token to break one grant only
-- Writes  lock, line, waiters, fence
local lock, line, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local only, foreign = ARGV[1], ARGV[2] == '1'

local now_us = clock_us()
local held = redis.call('GET', lock)
if not held then return { 'free', whole(now_us) } end
local holder = client_of(held)
local its_fence = whole(fence_of(held, fence))
if holder == '' and not foreign then return { 'foreign', whole(now_us) } end
if only ~= '' and only ~= its_fence then return { 'changed', its_fence, whole(now_us) } end
line_pass_on(lock, line, waiters, fence, now_us)
return { 'broken', holder, its_fence, whole(now_us) }
