-- cron/finish: a tick was run to its end; give the name back. The next waiter gets it in the same step.
--
-- KEYS[1] lock       string; the token of the run
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record     hash; the latest ticks (lua/cron.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"done"}              the tick is over for all
--         {"stale", tick_us}    too late, and nothing was changed: a run of this tick has begun since; '0': the record is gone
-- Replay  "done" again
-- Writes  lock, queue, waiters, fence, record
--#include prelude fence queue member holds grant broadcast cron
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

local h = holds_read(lock, fence, clock_us())
local r, other = cron_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
if r.token ~= token then
  -- The end was recorded and its reply lost, and the run of a later tick has begun since.
  local was_done = string.find(redis.call('HGET', record, 'before') or '', 'done ' .. token .. ' ', 1, true) == 1
  if was_done then return { 'done' } end
  return { 'stale', whole(r.tick_us) }
end
-- A run whose lease has expired is still heard as long as no other run has begun: its work is done.
redis.call('PEXPIRE', record, CRON_KEPT_MS) -- first, because memory pressure does not refuse it, nor what follows it then
redis.call('HSET', record, 'state', cron_state('done', token, r.attempt, r.tick_us))
--#inline broken
if h.exclusive == token or h.exclusive == broken then grant_give_back(h, queue, waiters, '1', token) end
broadcast(r.channel)
return { 'done' }
