-- election/resign: release the mutex as the leader; the next campaigner gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] leader     string; who leads (lua/leader.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership
--
-- Returns {"released"}    free, or already the next campaigner's. Followers are told when it is free; otherwise the
--                         record stays, and they are told when the next leader proclaims or resigns
--         {"expired"}     there was no lock: the lease had expired or was deleted
--         {"taken"}       another client holds it; nothing was changed
-- Replay  "expired" or "taken": the first call did the work
-- Writes  lock, queue, waiters, fence, leader
local lock, queue, waiters, fence, leader = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

--#include broadcast
local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
--#plain
-- The head: the caller leads, and there is no campaigner. Of grant_give_back (lua/grant.lua) only holds_remove has an effect
-- then, so the record goes too.
local record = held == token and redis.call('EXISTS', queue) == 0 and (redis.pcall('GET', leader) or '')
if type(record) == 'string' then
  local channel = string.match(record, '^[^\n]*\n([^\n]*)\n%d+\n')
  redis.call('DEL', lock)
  if channel then
    redis.call('DEL', leader)
    broadcast(channel)
  end
  return { 'released' }
end
--#end

--#include prelude fence queue member holds grant leader
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
of_type(held) -- raises an error of another kind
local _, channel = leader_read(leader)
if held == token then grant_give_back(holds_read(lock, fence, clock_us()), queue, waiters, '1', token) end
-- A leader that resigns before it has proclaimed finds the record of the one before it, whose followers are told.
if channel and redis.call('EXISTS', lock) == 0 then
  redis.call('DEL', leader)
  broadcast(channel)
end
if held == token then return { 'released' } end
return { held and 'taken' or 'expired' }
