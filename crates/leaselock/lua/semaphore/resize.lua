-- semaphore/resize: say how many permits there are, whatever those say who acquire; or leave it to them again.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] permits    integer > 0; '0' leaves it to those who acquire
--
-- Returns {"resized", permits, used, time_us}    so many there are now, and so many are used. With fewer than are used
--                                                nothing is taken away, and nothing is granted until enough are back
-- Replay  the same answer
-- Writes  lock, queue, waiters, fence, usage
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits = ARGV[1]

local now_us = clock_us()
if holds_read(lock, fence, now_us, usage).strange then return redis.call('GET', lock) end -- which the server refuses
if permits == '0' then
  redis.call('HDEL', usage, 'pinned')
else
  redis.call('HSET', usage, 'pinned', '1', 'permits', permits)
  redis.call('PEXPIRE', usage, USAGE_KEPT_MS) -- this may be all that changes
end
local h = holds_read(lock, fence, now_us, usage)
grant_serve(h, queue, waiters, '')
holds_close(h)
return { 'resized', whole(h.permits), whole(h.used), whole(h.now_us) }
