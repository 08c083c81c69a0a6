-- mutex/break: break the lease as an operator, of all holders where several hold; the next waiters are granted in the
-- same step.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] waiters    hash; token to its entry in the queue
-- KEYS[4] fence      stream; its latest id is the latest fencing token (lua/fence.lua)
-- KEYS[5] usage      hash; how many permits there are and are used (lua/holds.lua)
-- KEYS[6] gate       string; in strict mode only: while it is closed nothing is granted (lua/gate.lua)
-- ARGV[1] only       a fencing token that must be the holder's, of several the last; '' for any. All who read at the same time have
--                    the same; each hold of permits has its own, and then the others stay
-- ARGV[2] foreign    '1' breaks a lock of another library too, '0' does not
--
-- Returns {"broken", holder, fence, count, time_us}   a client that held it ('' when foreign); fence: the last of its
--                                      numbers, '0': it had none, or each of several had its own; count: how many held it
--         {"free", time_us}                    no client held it
--         {"foreign", time_us}                 another library holds it; nothing was changed
--         {"changed", fence, time_us}          the holder now has other fencing tokens ('0': none); nothing was changed
-- Replay  breaks the holder of that moment: name the fencing token to break one grant only
-- Writes  lock, queue, waiters, fence, usage
--#include prelude fence queue member holds grant
--#strict
--#include gate gate_queue
local gate = KEYS[6]
gate_hide_waiters(gate)
--#end
local lock, queue, waiters, fence, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local only, foreign = ARGV[1], ARGV[2] == '1'

local now_us = clock_us()
local h = holds_read(lock, fence, now_us)
if h.strange then return redis.call('GET', h.lock) end -- which the server refuses
if not h.exclusive and h.count == 0 then return { 'free', whole(now_us) } end
local holder, count = holds_holder(h), h.exclusive and 1 or h.count
if h.exclusive and holder == '' and not foreign then return { 'foreign', whole(now_us) } end

if h.weighted then
  h.usage = usage
  holds_read_usage(h)
  local members = redis.call('ZRANGE', lock, '0', '-1')
  for _, member in ipairs(members) do
    local number = redis.call('HGET', usage, member)
    if number == only then
      local token, kind = string.sub(member, 1, HOLD_START - 1), 'w' .. string.sub(member, HOLD_START)
      holder, count = client_of(token), 1
      grant_give_back(h, queue, waiters, kind, token)
      holds_close(h)
      return { 'broken', holder, number, count, whole(now_us) }
    end
  end
  if only ~= '' then return { 'changed', '0', whole(now_us) } end
  local number = #members == 1 and redis.call('HGET', usage, members[1]) or '0'
  for _, member in ipairs(members) do
    redis.call('HDEL', usage, member)
  end
  grant_give_back(h, queue, waiters, '1', '')
  holds_close(h)
  return { 'broken', holder, number, count, whole(now_us) }
end

local its_fence = h.exclusive and fence_of(h.exclusive, fence) or h.shared or '0'
if only ~= '' and only ~= its_fence then return { 'changed', its_fence, whole(now_us) } end
grant_give_back(h, queue, waiters, '1', '')
return { 'broken', holder, its_fence, count, whole(now_us) }
