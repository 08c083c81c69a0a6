-- mutex/acquire: acquire the mutex if it is free and no waiter is ahead; otherwise, if willing, join the queue.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant, kept 7 days (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints fencing tokens
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy. 'priority passed_ms kind channel' does: larger priorities go
--                    first; passed_ms > 0 is the lease when handed over later, short until it is renewed; kind is digits
--                    here, a range > 0: how many fencing tokens a later grant reserves; channel is where the caller
--                    receives its grant, empty when it cannot
-- ARGV[4] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[5] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"fenced", time_us}                              granted at once with an empty queue: held under `token`
--                                                          until ttl_ms from time_us, which is its fencing token too
--         {"unfenced", time_us}                            the same without a fencing token
--         {"granted", fence, range, time_us, others}       granted in any other case; fence '0' when the token asks
--                                                          for none, otherwise the first of `range`; others '1' when
--                                                          a waiter is left in the queue
--         {"waiting", pttl_ms, holder, time_us, position}  in the queue at `position` (1 is next); the holder's remaining
--                                                          time (-1: none is set) and its client ('' when foreign).
--                                                          1 and '': it is free, and reserved for another waiter
--         {"busy", pttl_ms, holder, time_us}               held by another client, or reserved for a waiter, and the
--                                                          caller is not in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long, 0 when it has
--                                                          just ended; why: 'missing', there was no gate; 'moved', it
--                                                          was another server's. This call holds nothing
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence, with its key            no grant of ours wrote this value, and the token wants a
--                                                          fencing token; or DAMAGED queue: the queue or the waiters
--                                                          are of another type. Nothing is granted or renewed
-- Replay  a token that holds gets {"granted", same fence, same range} with its ttl renewed; a waiting token keeps its
--         position and is marked as alive, unless it was in the last 10 s. Nothing is granted or queued twice.
-- Writes  lock, queue, waiters, fence, gate
--#strict
-- Behind a closed gate nothing is granted and no caller joins the queue. Nor does a token that holds learn so: its
-- lease may have expired, by another clock, before it ever learned of it.
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[4], ARGV[5]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3]

local FENCED_AT, FENCED = 23, 46 -- of a token (lua/prelude.lua)
local TIME_LENGTH, FENCE_LENGTH, SAME_10000_S, FENCE_KEPT_MS = 16, 33, 6, '614800000' -- of a fence (lua/fence.lua)

local time = redis.call('TIME')
local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
local held = wait ~= '' and redis.pcall('GET', lock) -- an error for a set of readers or permits (lua/holds.lua)

-- The plain case: no key exists but perhaps a fence that the clock has passed, of two numbers with 16 digits.
if not held and redis.call('EXISTS', lock, queue) == 0 then
  if string.byte(token, FENCED_AT) ~= FENCED then
    redis.call('SET', lock, token, 'PX', ttl_ms)
    return { 'unfenced', now }
  end
  local before = redis.pcall('SET', fence, now .. ':' .. now, 'KEEPTTL', 'GET')
  local last = type(before) == 'string' and string.match(before, '^%d+:(%d+)$')
  if not before or last and #last == TIME_LENGTH and #before == FENCE_LENGTH and #now == TIME_LENGTH
    and before < now and last < now then
    if not before or string.sub(before, 1, SAME_10000_S) ~= string.sub(now, 1, SAME_10000_S) then
      redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
    end
    redis.call('SET', lock, token, 'PX', ttl_ms)
    return { 'fenced', now }
  end
  if type(before) == 'string' then
    redis.call('SET', fence, before, 'KEEPTTL')
  elseif not string.find(before.err, 'WRONGTYPE', 1, true) then
    return before
  end
end

-- These names cost what is granted at once nothing, because they stand below it.
local TICKET_END, POLLED_START, POLLED_SAME_10_S, WISH_START = 16, 48, 56, 65 -- of an entry (lua/queue.lua)
local ASIDE_MARK = '~'
local PRIORITY_START, PRIORITY_END, SAME_10_S, QUEUE_KEPT_MS, TOKEN_LENGTH = 64, 66, 9, '60000', 31

-- The plain wait: held by another, and in the queue behind all others of the one usual priority, new or as before.
if type(held) == 'string' and held ~= token and string.sub(wait, 1, 2) == '0 ' then
  local ranged = redis.pcall('ZRANGE', queue, '-1', '-1')
  local last = ranged[1]
  if #now == TIME_LENGTH and not ranged.err
    and (not last or string.sub(last, PRIORITY_START, PRIORITY_END) == ' 0 ' and string.sub(last, 1, TICKET_END) < now
      and string.sub(last, -1) ~= ASIDE_MARK) then
    local member = now .. token .. now .. ' ' .. wait
    local added = redis.pcall('HSETNX', waiters, token, member)
    if added == 1 then
      redis.call('ZADD', queue, '0', member)
      local position = last and redis.call('HLEN', waiters) or 1
      -- Both keys expire 60 s after this was done last, which is at most 10 s ago unless the leading digits differ.
      -- An entry that is alone behind others has created its key anew.
      if position == 1 or string.sub(last, 1, SAME_10_S) ~= string.sub(now, 1, SAME_10_S) then
        redis.call('PEXPIRE', queue, QUEUE_KEPT_MS)
        redis.call('PEXPIRE', waiters, QUEUE_KEPT_MS)
        position = last and redis.call('ZCARD', queue) or 1
      end
      local holder = #held == TOKEN_LENGTH and string.match(held, '^[%w_-]+[.~]([%w_-]+)$') or ''
      return { 'waiting', redis.call('PTTL', lock), holder, now, position }
    end
    -- A poll with the same request, of a waiter that was marked as alive at most 10 s ago, writes nothing.
    local mine = added == 0 and redis.call('HGET', waiters, token)
    if mine and string.sub(mine, POLLED_START, POLLED_SAME_10_S) == string.sub(now, 1, SAME_10_S)
      and string.sub(mine, WISH_START) == wait then
      local rank = redis.call('ZRANK', queue, mine)
      local holder = #held == TOKEN_LENGTH and string.match(held, '^[%w_-]+[.~]([%w_-]+)$') or ''
      if rank then return { 'waiting', redis.call('PTTL', lock), holder, now, rank + 1 } end
    end
  end
end

--#include prelude fence queue member holds grant
local range = string.match(wait, '^%-?%d+ %d+ (%d+) ') or '1'
local request = { token = token, ttl_ms = ttl_ms, kind = range, wait = wait }
return grant_acquire(holds_read(lock, fence, clock_of(time)), queue, waiters, request)
