-- rwlock/acquire: read under a read-write lock if no client writes and no waiter is ahead; otherwise, if willing, join
-- the queue. To write is to acquire the mutex of the same name.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant, and 's' when readers have it (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints a fencing token
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy; 'priority passed_ms kind channel' does (lua/mutex/acquire.lua)
-- ARGV[4] mode       's' reads; 'u' reads and may become exclusive
-- ARGV[5] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[6] quarantine_ms  integer > 0; in strict mode only: how long another server's gate is closed
--
-- Returns {"granted", fence, range, time_us, others}       held under `token` until ttl_ms from time_us; fence is that of
--                                                          all who read now, '0' when the token asks for none; range '1';
--                                                          others '1' when a waiter is left in the queue
--         {"waiting", rest_ms, holder, time_us, position}  in the queue at `position` (1 is next); in rest_ms it would be
--                                                          granted if no holder renewed; the client of one holder
--         {"busy", rest_ms, holder, time_us}               a client writes, or a waiter is ahead, and the caller is not
--                                                          in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nothing is granted for so long
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence or DAMAGED queue         as in mutex/acquire
-- Replay  a token that holds gets {"granted", same fence} with its ttl renewed; a waiting token keeps its position
-- Writes  lock, queue, waiters, fence, gate
--#strict
--#include gate
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[5], ARGV[6]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
--#end
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local TOKEN_LENGTH, FENCED_AT, FENCED = 31, 23, 46 -- of a token (lua/prelude.lua)
local TIME_LENGTH, FENCE_LENGTH, SAME_10000_S, FENCE_KEPT_MS = 16, 33, 6, '614800000' -- of a fence (lua/fence.lua)

local time = redis.call('TIME')

-- The plain case: no waiter, no writer, no upgradable reader, no permits, and the fence is that of the readers that hold,
-- or the clock has passed it.
if mode == 's' and redis.call('EXISTS', queue) == 0 then
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local held = redis.pcall('ZRANGE', lock, '0', '0')
  if not held.err and (not held[1] or #held[1] == TOKEN_LENGTH) and #now == TIME_LENGTH then
    local shared, fits = '0', true
    local fenced = string.byte(token, FENCED_AT) == FENCED
    if fenced or not held[1] then
      local before = redis.pcall('GET', fence)
      local text = type(before) == 'string' and before or ''
      local last, mark = string.match(text, '^%d+:(%d+)(s?)$')
      if not fenced then
        fits = mark ~= 's' -- those who join it must not have the number of readers before
      elseif mark == 's' and held[1] then
        shared = last
        fits = #shared == TIME_LENGTH and #text == FENCE_LENGTH + 1
        if string.sub(shared, 1, SAME_10000_S) ~= string.sub(now, 1, SAME_10000_S) then
          redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
        end
      else
        fits = not before or last and #text == FENCE_LENGTH + #mark and #last == TIME_LENGTH and text < now and last < now
        if fits then redis.call('SET', fence, now .. ':' .. now .. 's', 'PX', FENCE_KEPT_MS) end
        shared = now
      end
    end
    if fits then
      redis.call('ZADD', lock, string.format('%.0f', now + ttl_ms * 1000), token)
      if not held[1] or redis.call('PTTL', lock) <= tonumber(ttl_ms) then redis.call('PEXPIRE', lock, ttl_ms + 1) end
      return { 'granted', shared, '1', now, '0' }
    end
  end
end

--#include prelude fence queue member holds grant
local request = { token = token, ttl_ms = ttl_ms, kind = mode, wait = wait }
return grant_acquire(holds_read(lock, fence, clock_of(time)), queue, waiters, request)
