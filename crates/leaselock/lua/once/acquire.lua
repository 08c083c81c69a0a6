-- once/acquire: begin a run, or learn what became of an earlier one. No caller joins the queue.
--
-- KEYS[1] lock         string; the token of the run
-- KEYS[2] queue        sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters      hash; token to its entry in the queue
-- KEYS[4] fence        stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record       hash; what became of the latest run (lua/once.lua)
-- KEYS[6] gate         string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token        the caller's proof of ownership
-- ARGV[2] ttl_ms       integer > 0; the lease of the run
-- ARGV[3] kept_ms      integer > 0; how long the record is kept
-- ARGV[4] fingerprint  of the request, without spaces; all callers of a key must have the same
-- ARGV[5] attempts     how many runs may begin; '0': any number
-- ARGV[6] on_crash     'refuse' begins no run after one that crashed; 'again' does
-- ARGV[7] after        the fencing token of a run that the caller has waited for, whose failure it shares; '0': none
-- ARGV[8] call         the token of the first request of this call
-- ARGV[9] request      the number of this request in its call, from 1; the replies to those before it were lost
-- ARGV[10] channel     where changes of the record are broadcast
-- ARGV[11] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[12] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others, attempt}  the caller runs; attempt: from 1; range is '1'; others '1'
--                                                 when the queue has waiters; time_us '0' when it was not read
--         {"running", pttl_ms, holder, time_us, fence}  a run holds the name: its remaining time, client and fencing token
--         {"busy", pttl_ms, holder, time_us}      another lock of the name is held, or reserved for a waiter
--         {"waiting", rest_ms, holder, time_us, position}  not given: no caller asks to join the queue
--         {"done", fence, attempt, result}        a run has ended, with this result
--         {"failed", fence, attempt, rest_ms, text}  the latest run failed, and the caller has waited for it, or the next
--                                                 one may begin in rest_ms
--         {"kept", fence, attempt, text}          it failed, which is kept as a result is
--         {"crashed", fence, attempt}             the latest run did not end, and no other may begin
--         {"given_up", attempt, text}             so many runs failed or crashed as may begin; text: of the latest failure
--         {"differs"}                             the record is that of another request
--         {"quarantined", left_ms, why, time_us}  strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}      strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue   as in mutex/acquire
-- Replay  a token that holds gets {"granted", same fence, same attempt} with its ttl renewed; so does a later request of the
--         same call, whose token holds from then on. When that run does not hold any more, the call begins it anew
-- Writes  lock, queue, waiters, fence, record, gate
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[6], ARGV[11], ARGV[12]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms, kept_ms, fingerprint, attempts, on_crash, after, call, request, channel =
  ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

--#plain
-- The head: there is a result, as the lines below answer it, or nothing lies there but perhaps the fence (lua/fence.lua). Of
-- grant_acquire (lua/grant.lua) these are grant_mint and grant_write; then the record of a first run. The time is that of
-- the number, which only the first of a millisecond surely has: a fence stays ahead of a clock that went back.
local kept = redis.pcall('HMGET', record, 'state', 'fingerprint', 'result')
if kept[1] and kept[2] == fingerprint then
  local number, attempt = string.match(kept[1], '^done %S+ (%d+) (%d+)')
  if number then return { 'done', number, attempt, kept[3] or '' } end
end
if not kept.err and not kept[1] and redis.call('EXISTS', lock, queue) == 0 then
--#inline mint
  if is_minted then
--#inline number
    local RUN_KEPT_MS = 604800000 -- a run that has not ended is remembered for seven days at least (lua/once.lua)
    local state = 'run ' .. token .. ' ' .. number .. ' 1 ' .. ms .. '000 ' .. call .. ' ' .. request
    redis.call('SET', lock, token, 'PX', ttl_ms)
    redis.call('HSET', record, 'state', state, 'fingerprint', fingerprint, 'channel', channel)
    redis.call('PEXPIRE', record, math.max(kept_ms, RUN_KEPT_MS))
    return { 'granted', number, '1', count == '0' and ms .. '999' or '0', '0', 1 }
  end
end
--#end

--#include prelude fence queue member holds grant once
local r, other = once_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
if r and r.fingerprint ~= fingerprint then return { 'differs' } end
if r and r.kind == 'done' then return { 'done', r.fence, r.attempt, once_result(record) } end
if r and r.kind == 'kept' then return { 'kept', r.fence, r.attempt, once_result(record) } end

request = tonumber(request)
local h = holds_read(lock, fence, clock_us())
local is_run = r and r.kind == 'run'
local is_held = is_run and h.exclusive == r.token
-- An earlier request of this call has begun the run, and its reply was lost. A later one never gives way to it.
local is_own = is_run and r.call == call and (r.request < request or is_held and r.token == token)
if is_held and not is_own then
  return { 'running', redis.call('PTTL', lock), client_of(r.token), whole(h.now_us), r.fence }
end
if r and not is_own and holds_fit(h, '1') then
  local rest_ms = once_rest_ms(r, h.now_us)
  if r.kind == 'fail' and r.fence == after then
    return { 'failed', r.fence, r.attempt, rest_ms, once_result(record) }
  end
  if is_run and on_crash == 'refuse' then return { 'crashed', r.fence, r.attempt } end
  if attempts > 0 and r.attempt >= attempts then return { 'given_up', r.attempt, once_result(record) } end
  if r.kind == 'fail' and rest_ms > 0 then return { 'failed', r.fence, r.attempt, rest_ms, once_result(record) } end
end
if is_own and is_held and r.token ~= token and fence_last(fence) then
  redis.call('SET', lock, token, 'PX', ttl_ms)
  h.exclusive = token
end
local answer = grant_acquire(h, queue, waiters, { token = token, ttl_ms = ttl_ms, kind = '1', wait = '' })
if answer[1] ~= 'granted' then return answer end
local attempt = (r and r.attempt or 0) + (is_own and 0 or 1)
answer[6] = attempt
local run = { kind = 'run', token = token, fence = answer[2], attempt = attempt, at_us = h.now_us, call = call,
  request = request }
if not is_own then
  redis.call('HSET', record, 'before', r and once_state(r) or '')
  if r then redis.call('HSET', record, 'before_ends_ms', whole(h.now_us / 1000 + redis.call('PTTL', record))) end
end
redis.call('HSET', record, 'state', once_state(run), 'fingerprint', fingerprint, 'channel', channel)
redis.call('PEXPIRE', record, math.max(kept_ms, ONCE_RUN_KEPT_MS))
return answer
