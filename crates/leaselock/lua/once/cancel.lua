-- once/cancel: undo an acquire whose caller was dropped: its run never began, and counts as no attempt.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record     hash; what became of the latest run (lua/once.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"left", time_us}        was in the queue, which no run is, and has left it
--         {"released", time_us}    held the name, which is free or the next waiter's now
--         {"absent", time_us}      did not hold
-- Replay  "absent": the first call did the work
-- Writes  lock, queue, waiters, fence, record
--#include prelude fence queue member holds grant broadcast once
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

local r, now_us = once_read(record), clock_us()
local answer = grant_cancel(holds_read(lock, fence, now_us), queue, waiters, '1', token)
if r and r.kind == 'run' and r.token == token then
  local before, ends_ms = unpack(redis.call('HMGET', record, 'before', 'before_ends_ms'))
  if before and before ~= '' then
    redis.call('HSET', record, 'state', before)
    redis.call('PEXPIRE', record, whole(math.max(0, ends_ms - now_us / 1000)))
  else
    redis.call('DEL', record)
  end
  broadcast(r.channel)
end
return answer
