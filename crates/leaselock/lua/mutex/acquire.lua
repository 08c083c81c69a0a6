-- mutex/acquire: take the mutex if it is free and nobody is ahead; otherwise, if willing, join the queue.
--
-- KEYS[1] lock       string; the holder's token; the lease is this key's PTTL
-- KEYS[2] queue      sorted set; waiters in order (lua/line.lua)
-- KEYS[3] waiters    hash; token to its member of the queue
-- KEYS[4] fence      string; 'first:last' of the latest grant, kept 7 days (lua/fence.lua)
-- KEYS[5] gate       string; in strict mode only: while it is closed nobody is granted (lua/gate.lua)
-- ARGV[1] token      the caller's proof of ownership; its 23rd character is '.' when a grant mints fencing tokens
-- ARGV[2] ttl_ms     integer > 0; the lease when granted by this call
-- ARGV[3] wait       '' does not join the queue when busy. 'priority passed_ms range channel' does: larger priorities go
--                    first; passed_ms > 0 is the lease when handed over later, short until it is renewed; range > 0 is
--                    how many fencing tokens a grant reserves that was waited for; channel is where the caller
--                    listens for its grant, empty when it cannot
-- ARGV[4] longest_ms     integer > 0; in strict mode only: the longest ttl that any lease behind the gate has
-- ARGV[5] quarantine_ms  integer > 0; in strict mode only: how long a gate that is found to be another server's is closed
--
-- Returns {"fenced", time_us}                              granted at once with nobody in the queue: held under `token`
--                                                          until ttl_ms from time_us, which is its fencing token too
--         {"unfenced", time_us}                            the same without a fencing token
--         {"granted", fence, range, time_us, others}       granted in any other case; fence '0' when the token asks
--                                                          for none, otherwise the first of `range`; others '1' when
--                                                          somebody is left in the queue
--         {"waiting", pttl_ms, holder, time_us, place}     in the queue at `place` (1 is next); the holder's remaining time
--                                                          (-1: none is set) and its client ('' when foreign)
--         {"busy", pttl_ms, holder, time_us}               held by another, or owed to somebody in the queue; not in the queue
--         {"quarantined", left_ms, why, time_us}           strict mode: nobody is granted for so long, 0 when it has
--                                                          just ended; why: 'missing', there was no gate; 'moved', it
--                                                          was another server's. Nothing is held by this call
--         {"disagrees", longest_ms, time_us}               strict mode: the gate is for leases of another length
--         the error DAMAGED fence, with its key            no grant of ours wrote what lies there, and the token wants a
--                                                          fencing token; or DAMAGED queue: the queue or the waiters are
--                                                          of another type. Nothing is granted and nothing is renewed
-- Replay  a token that holds gets {"granted", same fence, same range} with its time made whole again; a waiting token
--         keeps its place and is marked as alive, unless it was in the last 10 s. Nothing is granted or queued twice.
-- Writes  lock, queue, waiters, fence, gate
local lock, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl_ms, wait = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
local held = wait ~= '' and redis.call('GET', lock)

-- The plain case: nothing is there but perhaps a fence that the clock has passed, of two numbers with 16 digits.
if not held and redis.call('EXISTS', lock, queue) == 0 then
  if string.byte(token, 23) ~= 46 then
    redis.call('SET', lock, token, 'PX', ttl_ms)
    return { 'unfenced', now }
  end
  local before = redis.pcall('SET', fence, now .. ':' .. now, 'KEEPTTL', 'GET')
  local last = type(before) == 'string' and string.match(before, '^%d+:(%d+)$')
  if not before or last and #last == 16 and #before == 33 and #now == 16 and before < now and last < now then
    if not before or string.sub(before, 1, 6) ~= string.sub(now, 1, 6) then
      redis.call('PEXPIRE', fence, '614800000')
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

-- The plain wait: held by another, and in the queue behind all others of the one usual priority, new or as before.
if held and held ~= token and string.sub(wait, 1, 2) == '0 ' then
  local ranged = redis.pcall('ZRANGE', queue, '-1', '-1')
  local last = ranged[1]
  if #now == 16 and not ranged.err and (not last or string.sub(last, 64, 66) == ' 0 ' and string.sub(last, 1, 16) < now) then
    local member = now .. token .. now .. ' ' .. wait
    local added = redis.pcall('HSETNX', waiters, token, member)
    if added == 1 then
      redis.call('ZADD', queue, '0', member)
      local place = last and redis.call('HLEN', waiters) or 1
      -- Both keys end 60 s after this was done last, which is at most 10 s ago unless the leading digits differ.
      -- An entry that is alone behind others has made its key anew.
      if place == 1 or string.sub(last, 1, 9) ~= string.sub(now, 1, 9) then
        redis.call('PEXPIRE', queue, '60000')
        redis.call('PEXPIRE', waiters, '60000')
        place = last and redis.call('ZCARD', queue) or 1
      end
      local holder = #held == 31 and string.match(held, '^[%w_-]+[.~]([%w_-]+)$') or ''
      return { 'waiting', redis.call('PTTL', lock), holder, now, place }
    end
    -- A poll by whoever stands there with the same wish, and was marked as alive at most 10 s ago, writes nothing.
    local mine = added == 0 and redis.call('HGET', waiters, token)
    if mine and string.sub(mine, 48, 56) == string.sub(now, 1, 9) and string.sub(mine, 65) == wait then
      local rank = redis.call('ZRANK', queue, mine)
      local holder = #held == 31 and string.match(held, '^[%w_-]+[.~]([%w_-]+)$') or ''
      if rank then return { 'waiting', redis.call('PTTL', lock), holder, now, rank + 1 } end
    end
  end
end
