-- quorum/vote_many: one server's votes for many acquisitions at once, each for itself: those of locks that are free.
-- On servers only.
--
-- KEYS[…] locks      the locks of n items, then their n fences (none without fencing)
-- ARGV[1] ttl_ms     integer > 0; for each
-- ARGV[2] fencing    '1' when each wants a fencing token, '0' when none does
-- ARGV[3] proposed   the fencing token that the caller proposes for each; '0' when it knows none
-- ARGV[4] behind_us  how far the proposal may be behind this server's clock
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, least, letters}   one letter for each item, in the order of the locks:
--           a  accepted: held under its token until ttl_ms from time_us, and the proposal holds here or none was wanted
--           -  any other case: nothing was done, use quorum/vote. Where it was for the proposal, `least` would hold
-- Replay  - for an item that the first call accepted: the owner of the number is unknown
-- Writes  locks
--#include prelude many fence proposal
local ttl_ms, fencing, proposed, behind_us = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local now_us = clock_us()
local count = #ARGV - 4
local fenced = fencing == '1'
local answers = {}

-- The plain case, which one command finds: there are no locks.
local free = count <= MANY_MAX and not many_exist(KEYS, 1, count)
local held = not free and count <= MANY_MAX and many_values(KEYS, 1, count)
local least = now_us

-- A key of another type counts as free up to here. NX leaves it as it is, and the second item of a lock too. The number
-- goes first: without its lock it makes the next one larger, and a lock without its number would be a wrong vote.
for i = 1, count do
  local may, larger = free or held and not held[i], 0
  if may and fenced then may, larger = proposal_accept(KEYS[count + i], proposed, now_us, behind_us) end
  if may == false and larger then least = math.max(least, larger) end
  local taken = may and redis.pcall('SET', KEYS[i], ARGV[i + 4], 'PX', ttl_ms, 'NX')
  answers[i] = taken and taken.ok and 'a' or '-'
end
return { 'answered', whole(now_us), whole(least), table.concat(answers) }
