-- mutex/break: break the lease as an operator, of all holders where several hold. Its holder cannot renew it any more, and is
-- told; the next waiters are granted when its holder gives it back, or when it ends. Or at once, in the same step.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] only       a fencing token that must be the holder's, of several the last; '' for any. All who read at the same time have
--                    the same; each hold of permits has its own, and then the others stay
-- ARGV[2] at_once    '1' frees it although its holder may work on, '0' does not
-- ARGV[3] foreign    '1' breaks a lock of another library too, at once only; '0' does not
-- ARGV[4] channel    the channel of a client is this and its id
-- ARGV[…] ends       and, behind the id, each of these
--
-- Returns {"broken", holder, fence, count, rest_ms, time_us}   a client that held it ('' when foreign); fence: the last of its
--                                      numbers, '0': it had none, or each of several had its own; count: how many held it;
--                                      rest_ms: when it ends at the latest, 0 for at once
--         {"free", time_us}                    no client held it
--         {"foreign", time_us}                 another library holds it, or it has no end; nothing was changed
--         {"changed", fence, time_us}          the holder now has other fencing tokens ('0': none); nothing was changed
-- Replay  the same answer while it ends; at once, it breaks the holder of that moment: name the fencing token to break one
--         grant only
-- Writes  lock, queue, waiters, fence, usage
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local only, at_once, foreign, channel = ARGV[1], ARGV[2] == '1', ARGV[3] == '1', ARGV[4]

-- Writes: the hold is under the token that no renewal finds, until it ends as it would have. Returns when that is.
local function refuse_renewals(h, hold)
  local token, pttl_ms = hold, redis.call('PTTL', h.lock)
--#inline broken
  -- First, because memory pressure does not refuse it, nor what follows it then.
  if pttl_ms > 0 then redis.call('PEXPIRE', h.lock, pttl_ms) end
  if h.exclusive then
    redis.call('SET', h.lock, broken, 'PX', pttl_ms)
    return pttl_ms
  end
  local ends = redis.call('ZSCORE', h.lock, hold)
  if broken ~= hold then
    redis.call('ZADD', h.lock, ends, broken)
    redis.call('ZREM', h.lock, hold)
    local number = h.usage and redis.call('HGET', usage, hold)
    if number then
      redis.call('HSET', usage, broken, number)
      redis.call('HDEL', usage, hold)
    end
  end
  return holds_until(h, ends)
end

local now_us = clock_us()
local h = holds_read(lock, fence, now_us)
if h.strange then return redis.call('GET', h.lock) end -- which the server refuses
if not h.exclusive and h.count == 0 then return { 'free', whole(now_us) } end
local is_ours = not h.exclusive or holds_holder(h) ~= '' and (at_once or redis.call('PTTL', lock) > 0)
if not is_ours and not (at_once and foreign) then return { 'foreign', whole(now_us) } end
if h.weighted then
  h.usage = usage
  holds_read_usage(h)
end

local weighted = h.weighted
local function token_in(hold)
  return h.exclusive and hold or string.sub(hold, 1, HOLD_START - 1)
end

-- What is to be broken: the value of the lock, or members of the set.
local found, number = {}, h.exclusive and fence_of(h.exclusive, fence) or h.shared or '0'
for _, hold in ipairs(h.exclusive and { h.exclusive } or redis.call('ZRANGE', lock, '0', '-1')) do
  local its = weighted and (h.usage and redis.call('HGET', usage, hold) or '0') or number
  if hold ~= 'u' and not member_fence(hold) and (only == '' or only == its) then
    found[#found + 1], number = hold, its
  end
end
if not found[1] then return { 'changed', number, whole(now_us) } end
if weighted and #found > 1 then number = '0' end

local told, rest_ms, holder = { [''] = true }, 0, client_of(token_in(found[1]))
for i, hold in ipairs(found) do
  local token, client = token_in(hold), client_of(token_in(hold))
  for at = 5, told[client] and 0 or #ARGV do
    queue_tell(channel .. client .. ARGV[at], 'broken ' .. token)
  end
  told[client] = true
  local kind = weighted and 'w' .. string.sub(hold, HOLD_START) or '1'
  if not at_once then
    rest_ms = math.max(rest_ms, refuse_renewals(h, hold))
  elseif i == #found then
    grant_give_back(h, queue, waiters, kind, token)
  elseif weighted then
    holds_remove(h, kind, token) -- readers go with the key
  end
end
if at_once and h.kept then holds_close(h) end
return { 'broken', holder, number, #found, rest_ms, whole(now_us) }
