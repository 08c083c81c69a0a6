-- semaphore/acquire: take permits if so many are free and no waiter is ahead; otherwise, if willing, join the queue.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints a fencing token
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy; 'priority passed_ms kind channel' does (lua/mutex/acquire.lua)
-- ARGV[4] mode       'w' and how many permits, a space, and how many there are by the caller's word; that holds from now
--                    on, unless an operator has said how many there are (lua/semaphore/resize.lua)
-- ARGV[5] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[6] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}       held under `token` until ttl_ms from time_us; range is '1';
--                                                          others '1' when a waiter is left in the queue
--         {"waiting", rest_ms, holder, time_us, position}  in the queue at `position` (1 is next); in rest_ms it would be
--                                                          granted if no holder renewed; the client of one holder
--         {"busy", rest_ms, holder, time_us}               too few are free, or a waiter is ahead, and the caller is not
--                                                          in the queue
--         {"never", permits, time_us}                      there are not so many; the caller is not in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue         as in mutex/acquire
-- Replay  a token that holds gets {"granted", same fence} with its ttl renewed; a larger fence, when `usage` was lost.
--         A waiting token keeps its position
-- Writes  lock, queue, waiters, fence, usage, gate
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[6], ARGV[5], ARGV[6]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms, wait, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local HOLD_START, USAGE_KEPT_MS = 32, '614800000' -- (lua/member.lua, lua/holds.lua)

local time = redis.call('TIME')
local weight, permits = string.match(mode, '^w(%d+) (%d+)$')

--#plain
-- The head: no waiter, the holds are permits and as many as `usage` says, and so many are free even if none of them has
-- expired. Of grant_acquire (lua/grant.lua) these are grant_mint and grant_write; then holds_close (lua/holds.lua).
local count = redis.call('EXISTS', queue) == 0 and redis.pcall('ZCARD', lock)
if type(count) == 'number' then
  local kept, member = redis.call('HMGET', usage, 'sum', 'permits', 'pinned'), token .. weight
  local used, counted = string.match(kept[1] or count == 0 and '0 0' or '', '^(%d+) (%d+)$')
  local of = kept[3] and kept[2] or permits
  local fits = tonumber(counted) == count and used + weight <= tonumber(of)
    and (count == 0 or string.find(redis.call('ZRANGE', lock, '0', '0')[1], '^%d+$', HOLD_START)
      and not redis.call('ZSCORE', lock, member))
  local minted = '0'
  if fits and string.find(token, '.', 1, true) then
--#inline mint
    fits = is_minted
    if fits then
--#inline number
      minted = number
    end
  end
  if fits then
--#inline now
    redis.call('ZADD', lock, string.format('%.0f', now + ttl_ms * 1000), member)
    if count == 0 or redis.call('PTTL', lock) <= tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms + 1) end
    redis.call('HSET', usage, 'sum', string.format('%d %d', used + weight, count + 1), 'permits', of, member, minted)
    redis.call('PEXPIRE', usage, USAGE_KEPT_MS)
    return { 'granted', minted, '1', now, '0' }
  end
end
--#end

--#include prelude fence queue member holds grant
local kind = 'w' .. weight
local h = holds_read(lock, fence, clock_of(time), usage, tonumber(permits))
if not h.usage then return redis.call('HGET', usage, 'sum') end -- which the server refuses
local answer
if holds_weight(kind) > h.permits and not holds_has(h, kind, token) then
  local member = queue_known(waiters, token)
  if member then queue_drop(queue, waiters, { member = member, token = token }) end
  grant_serve(h, queue, waiters, '') -- the number may have changed, and the head may have gone
  answer = { 'never', whole(h.permits), whole(h.now_us) }
else
  answer = grant_acquire(h, queue, waiters, { token = token, ttl_ms = ttl_ms, kind = kind, wait = wait })
  -- A token that held already may have said another number.
  if answer[1] == 'granted' and whole(h.permits) ~= h.kept[2] then grant_serve(h, queue, waiters, '') end
end
if not answer.err or h.refusal then holds_close(h) end -- others may have been granted before
return answer
