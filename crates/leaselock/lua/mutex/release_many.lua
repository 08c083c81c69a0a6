-- mutex/release_many: give many mutexes back at once, each for itself: those for which nobody is in line.
--
-- KEYS[…] locks      the locks of n items, then their n lines
-- ARGV[…] tokens     each holder's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: it is free
--           e  expired: nothing was there
--           t  taken: another holds it; nothing was changed
--           -  any other case: nothing was done, ask with mutex/release
-- Replay  e or t: the first call did the work
-- Writes  locks
local count = #ARGV
local held = count <= MANY_MAX and many_values(KEYS, 1, count)
local in_line = held and many_exist(KEYS, count + 1, 2 * count)
local answers, free = {}, {}

for i = 1, count do
  local holder = held and held[i]
  if not held then
    answers[i] = '-'
  elseif not holder then
    answers[i] = redis.pcall('EXISTS', KEYS[i]) == 0 and 'e' or '-'
  elseif holder ~= ARGV[i] then
    answers[i] = 't'
  elseif in_line and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then
    answers[i] = '-'
  else
    answers[i] = 'r'
    free[#free + 1] = KEYS[i]
  end
end

if #free == 0 then return { 'answered', table.concat(answers) } end
local deleted = redis.pcall('DEL', unpack(free))
if deleted == #free then return { 'answered', table.concat(answers) } end
-- Refused, or a lock was in this call twice: the second time it is as if the first were over.
local done = {}
for i = 1, count do
  if answers[i] == 'r' then
    answers[i] = type(deleted) ~= 'number' and '-' or done[KEYS[i]] and 'e' or 'r'
    done[KEYS[i]] = true
  end
end
return { 'answered', table.concat(answers) }
