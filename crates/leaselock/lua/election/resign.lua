-- election/resign: release the mutex as the leader; the next campaigner gets it in the same step.
--
-- KEYS[1] lock       string; the holder's token
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant
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

local held = redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)
local ahead = held == token and redis.pcall('ZRANGE', queue, '0', '1')

--#include broadcast
-- The plain case: the caller leads, and there is no campaigner.
if ahead and not ahead.err and not ahead[1] then
  local record = redis.pcall('GET', leader) or ''
  if type(record) == 'string' then
    local channel = string.match(record, '^[^\n]*\n([^\n]*)\n%d+\n')
    redis.call('DEL', lock)
    if channel then
      redis.call('DEL', leader)
      broadcast(channel)
    end
    return { 'released' }
  end
end

local is_open = true
--#strict
-- A hand-over is a grant, so behind a closed gate there is none.
--#include gate
local gate = KEYS[6]

is_open = gate_is_open(gate)
--#end
-- The plain hand-over, after which the record of who leads stays.
--#include handover
local time, is_done, out = redis.call('TIME'), false, nil
if ahead and is_open then
  is_done, out = handover_plain(lock, queue, waiters, fence, ahead, time)
end
if is_done then return { 'released' } end

--#include prelude fence queue member holds grant leader
--#strict
if not is_open then
  queue_visit = function() return {} end
end
--#end
if out then queue_add(queue, waiters, out, queue_score(queue_entry(out).priority)) end
of_type(held) -- raises an error of another kind
local _, channel = leader_read(leader)
if held == token then grant_give_back(holds_read(lock, fence, clock_of(time)), queue, waiters, '1', token, 0) end
-- A leader that resigns before it has proclaimed finds the record of the one before it, whose followers are told.
if channel and redis.call('EXISTS', lock) == 0 then
  redis.call('DEL', leader)
  broadcast(channel)
end
if held == token then return { 'released' } end
return { held and 'taken' or 'expired' }
