-- owner/wake: wake one waiter of a name, so that it polls, and then searches for the circle that it is in.
--
-- KEYS[1] waiters    hash; token to its entry in the queue (lua/queue.lua)
-- ARGV[1] token      of the waiter
--
-- Returns {"woken"}     the message was sent
--         {"absent"}    it does not wait any more
-- Replay  harmless: one more poll
-- Writes  waiters
--#include prelude queue
local waiters = KEYS[1]
local token = ARGV[1]

local member = queue_known(waiters, token)
if not member then return { 'absent' } end
redis.call('PEXPIRE', waiters, QUEUE_KEPT_MS)
queue_tell(queue_entry(member).channel, token)
return { 'woken' }
