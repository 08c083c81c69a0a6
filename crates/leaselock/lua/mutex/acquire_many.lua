-- mutex/acquire_many: take many mutexes at once, each for itself: those that are free with nobody in line.
--
-- KEYS[…] locks      the locks of n items, then their n lines, then their n fences (none without fencing)
-- ARGV[1] ttl_ms     integer > 0; the lease of each
-- ARGV[2] fencing    '1' mints fencing tokens, '0' does not
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, letters, …}   one letter for each item, in the order of the locks:
--           g  granted: held until ttl_ms from time_us
--           f  granted, and time_us is its fencing token
--           b  busy: held by another; behind the letters, for each b in order, its remaining time in milliseconds (-1:
--              none is set) and its client ('' when foreign)
--           -  any other case: nothing was done, ask with mutex/acquire
-- Replay  - for what the first call granted: mutex/acquire knows a token that holds
-- Writes  locks
local ttl_ms, fencing = ARGV[1], ARGV[2]

local now_us = clock_us()
local now = whole(now_us)
local fresh = now .. ':' .. now
local count = #ARGV - 2
local held = count <= MANY_MAX and many_values(KEYS, 1, count)
local in_line = held and many_exist(KEYS, count + 1, 2 * count)
local fences = {}
if fencing == '1' then fences = held and many_values(KEYS, 2 * count + 1, 3 * count) end
local answers, holders = {}, {}

for i = 1, count do
  local holder, fence = held and held[i], fences and fences[i]
  if not held or not fences or holder == ARGV[i + 2] then
    answers[i] = '-'
  elseif holder then
    local pttl_ms = redis.pcall('PTTL', KEYS[i])
    answers[i] = type(pttl_ms) == 'number' and 'b' or '-'
    if answers[i] == 'b' then
      holders[#holders + 1] = pttl_ms
      holders[#holders + 1] = client_of(holder)
    end
  elseif in_line and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then
    answers[i] = '-'
  elseif fence and not (#fence == 33 and tonumber(string.sub(fence, 18)) < now_us) then
    answers[i] = '-' -- the clock went back, or this is no fence of ours
  end
end

-- What is there and is no string looks free up to here. NX leaves it as it is, and the second item of a lock too.
local function take(i)
  local taken = redis.pcall('SET', KEYS[i], ARGV[i + 2], 'PX', ttl_ms, 'NX')
  if not taken or taken.err then return '-' end
  if fencing ~= '1' then return 'g' end
  local fence = KEYS[2 * count + i]
  local minted
  if fences[i] then
    minted = redis.pcall('SET', fence, fresh, 'PX', FENCE_KEPT_MS)
  else
    minted = redis.pcall('SET', fence, fresh, 'PX', FENCE_KEPT_MS, 'NX')
  end
  if minted and not minted.err then return 'f' end
  redis.call('DEL', KEYS[i])
  return '-'
end

for i = 1, count do
  if not answers[i] then answers[i] = take(i) end
end
return { 'answered', now, table.concat(answers), unpack(holders) }
