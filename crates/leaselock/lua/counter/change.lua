-- counter/change: change a counter exactly once, however often the request arrives. A client has one change in flight for
-- each counter, numbers its changes, and sends one again until a reply comes.
--
-- KEYS[1] counter    hash; value, the number; lock, whose holders change it; fence and owner, what its fence checker has seen
-- KEYS[2] latest     string; 'number tag value': this client's latest change and its reply
-- ARGV[1] number     integer > 0; the change's own, larger than those of this client's earlier changes
-- ARGV[2] latest_ms  integer > 0; how long the latest change is remembered
-- ARGV[3] verb       'add' or 'set'
-- ARGV[4] value      integer; what to add, or the new number
-- ARGV[5] expected   integer; the number that 'set' replaces. '' for 'add'
-- ARGV[6] kept_ms    integer; how long the counter is kept after this change. 0: as before, which is for ever by default
-- ARGV[7] fence      integer; the fencing token of the holder that changes it. '' without
-- ARGV[8] owner      word; whose grant that is. '' without
-- ARGV[9] lock       the name of the lock that was granted. '' without
--
-- Returns {"done", value}      the number after the change
--         {"differs", value}   it is this number, and not the expected one; nothing was changed
--         {"overflow", value}  the sum needs more than 64 bits; it is still this number
--         {"stale", fence}     a later holder has shown this fencing token; nothing was changed
--         {"other", lock}      holders of this lock change the counter; nothing was changed
--         {"late"}             a later change of this client has come; nothing was changed
--         the error DAMAGED counter, with its key    it is no whole number; the number was not changed
-- Replay  the same reply, as long as it is remembered and no later change has come; nothing is counted twice. It writes in
--         any case, so that a wait for replicas on the same connection covers the change
-- Writes  counter, latest
--#include fence_checker
local counter, latest = KEYS[1], KEYS[2]
local number, latest_ms, verb, value, expected, kept_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local fence, owner, lock = ARGV[7], ARGV[8], ARGV[9]
local EXACT = 2 ^ 53 -- Lua's numbers have 53 bits

local function reply(tag, said)
  if tag == 'done' then return { 'done', said } end
  if tag == 'differs' then return { 'differs', said } end
  if tag == 'stale' then return { 'stale', said } end
  if tag == 'other' then return { 'other', said } end
  return { 'overflow', said }
end

local its, tag, said = string.match(redis.call('GET', latest) or '', '^(%d+) (%a+) (.+)$')
if its == number then
  redis.call('PEXPIRE', latest, latest_ms)
  return reply(tag, said)
end
if its and tonumber(its) > tonumber(number) then return { 'late' } end

tag = 'done'
-- What the fence checker writes must not outlive a counter that a refusal leaves without a value.
local is_new = fence ~= '' and kept_ms ~= '0' and redis.call('EXISTS', counter) == 0
if fence ~= '' then
  local kept = redis.call('HMGET', counter, 'lock', 'value')
  if kept[2] and not string.find(kept[2], '^%-?%d+$') then return { err = 'DAMAGED counter ' .. counter } end
  local holders = kept[1] or lock
  local stale = holders == lock and fence_admit(counter, fence, owner)
  if holders ~= lock then
    tag, said = 'other', holders
  elseif stale then
    tag, said = 'stale', stale[2]
  else
    redis.call('HSETNX', counter, 'lock', lock)
  end
end
if tag ~= 'done' then
  -- nothing to change
elseif verb == 'add' then
  local sum = redis.pcall('HINCRBY', counter, 'value', value)
  if type(sum) ~= 'table' then
    said = sum > -EXACT and sum < EXACT and string.format('%.0f', sum) or redis.call('HGET', counter, 'value')
  elseif string.find(sum.err, 'overflow', 1, true) then
    tag, said = 'overflow', redis.call('HGET', counter, 'value')
  elseif string.find(sum.err, 'not an integer', 1, true) then
    return { err = 'DAMAGED counter ' .. counter }
  else
    return sum
  end
else
  said = redis.call('HGET', counter, 'value') or '0'
  if not string.find(said, '^%-?%d+$') then return { err = 'DAMAGED counter ' .. counter } end
  if said == expected then
    redis.call('HSET', counter, 'value', value)
    said = value
  else
    tag = 'differs'
  end
end
if kept_ms ~= '0' and (tag == 'done' or is_new) then redis.call('PEXPIRE', counter, kept_ms) end
redis.call('SET', latest, number .. ' ' .. tag .. ' ' .. said, 'PX', latest_ms)
return reply(tag, said)
