-- mutex/release_many: give many mutexes back at once, each for itself: those for which nobody is in line.
--
-- KEYS[…] locks      the locks of n items, then their n lines
-- ARGV[…] tokens     each holder's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", time_us, answers}   in the order of the locks, one word each: released, it is free; expired,
--                                          nothing was there; taken, another holds it and nothing was changed; alone,
--                                          nothing was done: ask with mutex/release
-- Replay  expired or taken: the first call did the work
-- Writes  locks
local now = whole(clock_us())
local count = #ARGV
local held = count <= MANY_MAX and many_values(1, count)
local in_line = held and many_exist(count + 1, 2 * count)
local answers, free = {}, {}

for i = 1, count do
  local holder = held and held[i]
  if not held then
    answers[i] = 'alone'
  elseif not holder then
    answers[i] = redis.pcall('EXISTS', KEYS[i]) == 0 and 'expired' or 'alone'
  elseif holder ~= ARGV[i] then
    answers[i] = 'taken'
  elseif in_line and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then
    answers[i] = 'alone'
  else
    answers[i] = 'released'
    free[#free + 1] = KEYS[i]
  end
end

if #free == 0 then return { 'answered', now, answers } end
local deleted = redis.pcall('DEL', unpack(free))
if deleted == #free then return { 'answered', now, answers } end
-- Refused, or a lock was in this call twice: the second time it is as if the first were over.
local done = {}
for i = 1, count do
  if answers[i] == 'released' then
    answers[i] = type(deleted) ~= 'number' and 'alone' or done[KEYS[i]] and 'expired' or 'released'
    done[KEYS[i]] = true
  end
end
return { 'answered', now, answers }
