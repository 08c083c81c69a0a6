-- cron/acquire: claim a tick, which one caller runs, or learn why it is not run now. No caller joins the queue.
--
-- KEYS[1] lock         string; the token of the run
-- KEYS[2] queue        sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters      hash; token to its entry in the queue
-- KEYS[4] fence        stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] record       hash; the latest ticks (lua/cron.lua)
-- KEYS[6] gate         string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token        the caller's proof of ownership
-- ARGV[2] ttl_ms       integer > 0; the lease of the run
-- ARGV[3] tick_us      when the tick is due, since 1970
-- ARGV[4] late_us      how long after its time it may begin
-- ARGV[5] again        '1': a tick whose run did not finish is run by another; 'first': and before any later tick
-- ARGV[6] overlap      'skip' leaves the tick out for all while the name is held; 'wait' lets the caller wait
-- ARGV[7] call         the token of the first request of this call
-- ARGV[8] request      the number of this request in its call, from 1; the replies to those before it were lost
-- ARGV[9] channel      where ends of runs are broadcast
-- ARGV[10] schedule     what an operator is shown of the schedule, at most 200 bytes; '' leaves what is there
-- ARGV[11] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[12] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others, attempt, tick_us}  the caller runs this tick, which is an earlier one
--                                                 if that comes first; attempt: from 1; range is '1'; others '1' when the
--                                                 queue has waiters
--         {"early", wait_us}                      it is due in so long; while an earlier one may come first, a second at
--                                                 most: then to be claimed again
--         {"over"}                                it was run or left out, or a later one has begun
--         {"running", pttl_ms}                    a run of it has begun, and holds the name; or crashed, and another lock does
--         {"missed", late_us}                     it was due so long ago, which is too late
--         {"overlap", pttl_ms}                    the name is held, so the tick is left out for all
--         {"behind", rest_ms, holder, time_us}    the caller waits: the run of an earlier tick holds the name
--         {"busy", rest_ms, holder, time_us}      the caller waits: another lock of the name is held, or reserved for a waiter
--         {"waiting", rest_ms, holder, time_us, position}  not given: no caller asks to join the queue
--         {"quarantined", left_ms, why, time_us}  strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}      strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue   as in mutex/acquire
-- Replay  a token that holds gets {"granted", same fence, same attempt} with its ttl renewed; so does a later request of the
--         same call, whose token holds from then on
-- Writes  lock, queue, waiters, fence, record, gate
--#include prelude fence queue member holds grant cron
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[6], ARGV[11], ARGV[12]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms, tick_us, late_us, again, overlap, call, request, channel, schedule = ARGV[1], ARGV[2],
  tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10]
local CHECK_US = 1000000 -- between two checks whether a run that is on has crashed

local r, other = cron_read(record)
if other then return redis.call('HGET', record, 'state') end -- which the server refuses
local h = holds_read(lock, fence, clock_us())
cron_without_future(r, h.now_us)
local is_held = r.kind == 'run' and h.exclusive == r.token
-- An earlier tick may crash, and then comes first. Or this call has begun it, and its reply was lost.
local is_open = again == 'first' and r.kind == 'run' and r.tick_us < tick_us and h.now_us - r.tick_us <= late_us
if is_open and (not is_held or r.call == call) then tick_us = r.tick_us end
local has_begun = r.kind ~= nil and tick_us == r.tick_us
-- An earlier request of this call has begun the tick, and its reply was lost. A later one never gives way to it.
local is_own = has_begun and r.call == call and (r.request < request or is_held and r.token == token)

if tick_us < r.tick_us or has_begun and r.kind == 'done' then return { 'over' } end
if not has_begun and tick_us <= r.skipped_us then return { 'over' } end
if has_begun and not is_own then
  if is_held then return { 'running', redis.call('PTTL', lock) } end
  if again == '0' then return { 'over' } end
end
local is_replay = is_own and is_held
if not is_replay then
  if tick_us > h.now_us then
    local wait_us = tick_us - h.now_us
    return { 'early', whole(is_open and math.min(wait_us, CHECK_US) or wait_us) }
  end
  if h.now_us - tick_us > late_us then return { 'missed', whole(h.now_us - tick_us) } end
elseif r.token ~= token and fence_last(fence) then
  redis.call('SET', lock, token, 'PX', ttl_ms)
  h.exclusive = token
end

local answer = grant_acquire(h, queue, waiters, { token = token, ttl_ms = ttl_ms, kind = '1', wait = '' })
if answer[1] == 'granted' then
  local attempt = has_begun and r.attempt + (is_own and 0 or 1) or 1
  answer[6], answer[7] = attempt, whole(tick_us)
  if not is_own then
    redis.call('HSET', record, 'before', r.kind and cron_state(r.kind, r.token, r.attempt, r.tick_us) or '')
  end
  redis.call('HSET', record, 'state', cron_state('run', token, attempt, tick_us), 'call', call,
    'request', whole(request), 'channel', channel)
  cron_keep(record, schedule)
  return answer
end
if answer[1] ~= 'busy' then return answer end
local pttl_ms, holder, time_us = answer[2], answer[3], answer[4]
if has_begun then return { 'running', pttl_ms } end
if overlap == 'skip' then
  redis.call('HSET', record, 'skipped', whole(tick_us))
  cron_keep(record, schedule)
  return { 'overlap', pttl_ms }
end
local left_ms = math.ceil((tick_us + late_us - h.now_us) / 1000) + 1 -- then the tick is missed
local rest_ms = pttl_ms < 0 and left_ms or math.min(pttl_ms, left_ms)
return { is_held and 'behind' or 'busy', rest_ms, holder, time_us }
