-- owner/inspect: show who holds a name and who waits for it, as a search for deadlocks needs it. Changes nothing.
--
-- KEYS[1] lock       what is held (lua/holds.lua)
-- KEYS[2] queue      sorted set; waiters in order (lua/queue.lua)
-- KEYS[3] usage      hash; how many permits there are (lua/holds.lua)
--
-- Returns {"seen", time_us, holds, waiting, permits}    holds: token ('' of another library), kind, token, …, 128 at
--                                             most; waiting: token, kind, priority, `ticket`, '1' when it is alive,
--                                             token, …, the first 128; permits: 0 when it is not known
-- Replay  the same answer
-- Writes  nothing
--#include prelude queue member holds
local lock, queue, usage = KEYS[1], KEYS[2], KEYS[3]

local now_us = clock_us()
local holds, waiting, present = {}, {}, {}
local held, is_set = of_type(redis.pcall('GET', lock))
if held then holds[1], holds[2] = client_of(held) == '' and '' or held, '1' end
local members = is_set and of_type(redis.pcall('ZRANGEBYSCORE', lock, whole(now_us), '+inf', 'LIMIT', '0', HEAD_MAX))
for _, member in ipairs(members or {}) do
  local token, kind = string.sub(member, 1, HOLD_START - 1), string.sub(member, HOLD_START)
  if member ~= 'u' and holds_is_ours(member) then
    holds[#holds + 1] = token
    holds[#holds + 1] = kind == '' and 's' or kind == 'u' and kind or 'w' .. kind
  end
end
local entries = queue_read(queue, 0, HEAD_MAX - 1)
queue_present(present, entries)
for _, entry in ipairs(entries) do
  local there = entry.passed_ms and present[entry.channel] and '1' or '0'
  local ticket = string.sub(entry.member, 1, TOKEN_START - 1)
  for _, part in ipairs({ entry.token, entry.kind or '', entry.priority, ticket, there }) do
    waiting[#waiting + 1] = part
  end
end
local permits = tonumber(of_type(redis.pcall('HGET', usage, 'permits')) or '0') or 0
return { 'seen', whole(now_us), holds, waiting, whole(permits) }
