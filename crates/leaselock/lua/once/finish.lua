-- once/finish: store what a run came to, and give the name back; the next waiter gets it in the same step.
--
-- KEYS[1] lock         string; the token of the run
-- KEYS[2] queue        sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters      hash; token to its entry in the queue
-- KEYS[4] fence        stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record       hash; what became of the latest run (lua/once.lua)
-- KEYS[6] gate         string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token        the caller's proof of ownership
-- ARGV[2] kind         'done', 'fail' or 'kept'
-- ARGV[3] result       the result, or the text of the failure
-- ARGV[4] number       the fencing token of the run, in case that the record was lost
-- ARGV[5] attempt      the number of the run, from 1, for the same case
-- ARGV[6] fingerprint  of the request, without spaces
-- ARGV[7] kept_ms      integer > 0; how long the record is kept
-- ARGV[8] pause_ms     for how long no other run begins after a failure that is not kept
-- ARGV[9] channel      where changes of the record are broadcast
--
-- Returns {"stored"}             every caller is told so from now on
--         {"stale", kind, fence}   too late, and nothing was changed. kind: 'run', 'done', 'fail' or 'kept', of a run that
--                                has begun since; 'gone', the record is; 'taken', another lock of the name is held
-- Replay  "stored"; the record is written and does not change, so that a wait for replicas on the same connection covers it
-- Writes  lock, queue, waiters, fence, record
--#include broadcast
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, kind, result, number, attempt, fingerprint, kept_ms, pause_ms, channel =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]

--#plain
-- The head: the run holds, no one waits, and its record is there. Of the lines below these are the record, without the time
-- that a result does not need, and of grant_give_back (lua/grant.lua) holds_remove, the only line that has an effect then.
if kind == 'done' and redis.pcall('GET', lock) == token and redis.call('EXISTS', queue) == 0 then
  local state = redis.pcall('HGET', record, 'state')
  local its, run = string.match(type(state) == 'string' and state or '', '^run (%S+) (%d+ %d+)')
  if its == token then
    redis.call('DEL', lock) -- first, because memory pressure does not refuse it, nor what follows it then
    redis.call('HSET', record, 'state', 'done ' .. token .. ' ' .. run .. ' 0', 'result', result)
    redis.call('PEXPIRE', record, kept_ms)
    broadcast(channel)
    return { 'stored' }
  end
end
--#end

--#include prelude fence queue member holds grant once
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local h = holds_read(lock, fence, clock_us())
local r, other = once_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
--#inline broken
local holds = h.exclusive == token or h.exclusive == broken
if r and r.token ~= token then
  -- A failure was stored and its reply lost, and another run has begun since.
  local was_stored = string.find(redis.call('HGET', record, 'before') or '', 'fail ' .. token .. ' ', 1, true) == 1
  if was_stored then return { 'stored' } end
  return { 'stale', r.kind, r.fence }
end
if r and r.kind ~= 'run' then
  redis.call('PEXPIRE', record, redis.call('PTTL', record))
  return { 'stored' }
end
-- A run whose lease has expired is still heard as long as no other lock of the name was granted.
if not holds and not r then return { 'stale', 'gone', '0' } end
if not holds and not holds_fit(h, '1') then return { 'stale', 'taken', r.fence } end

local ended = { kind = kind, token = token, fence = r and r.fence or number, attempt = r and r.attempt or attempt,
  at_us = h.now_us + pause_ms * 1000 }
redis.call('PEXPIRE', record, kept_ms) -- first, because memory pressure does not refuse it, nor what follows it then
redis.call('HSET', record, 'state', once_state(ended), 'result', result, 'fingerprint', fingerprint, 'channel', channel)
redis.call('PEXPIRE', record, kept_ms)
if holds then grant_give_back(h, queue, waiters, '1', token) end
broadcast(channel)
return { 'stored' }
