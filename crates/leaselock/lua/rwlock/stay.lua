-- rwlock/stay: give up the wait for an upgrade. The read stays, and so does an upgrade that was granted before: a call that
-- comes late must not take the upgrade of a later request.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the proof of ownership with which the caller reads
-- ARGV[2] mode       'x'
--
-- Returns {"left", time_us}        was in the queue and has left it; waiters that it kept waiting are granted
--         {"upgraded", time_us}    it is exclusive: the upgrade was granted before; not in the queue
--         {"absent", time_us}      it did not wait; nothing was changed
-- Replay  "absent" or "upgraded": the first call did the work
-- Writes  lock, queue, waiters, fence
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[5]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, mode = ARGV[1], ARGV[2]

local h = holds_read(lock, fence, clock_us())
local member = queue_known(waiters, token)
if member and queue_entry(member).kind == mode then
  queue_drop(queue, waiters, { member = member, token = token })
  if not h.exclusive then grant_serve(h, queue, waiters, '') end
else
  member = nil
end
if h.exclusive == token then return { 'upgraded', whole(h.now_us) } end
return { member and 'left' or 'absent', whole(h.now_us) }
