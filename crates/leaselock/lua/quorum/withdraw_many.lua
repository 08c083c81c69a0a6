-- quorum/withdraw_many: give many votes back at once, each for itself, and tell whoever asked to be told of one.
-- On servers only.
--
-- KEYS[…] locks      the locks of n items, then their n callers
-- ARGV[1] tell       '1' tells the first caller who is there, of each
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: it was held, and is free
--           e  expired: nothing was there
--           t  taken: another holds it; nothing was changed
--           -  any other case: nothing was done, ask with quorum/withdraw
-- Replay  e or t: the first call did the work
-- Writes  locks
local tell = ARGV[1]
local count = #ARGV - 1
local held = count <= MANY_MAX and many_values(KEYS, 1, count)
local called = held and tell == '1' and many_exist(KEYS, count + 1, 2 * count)
local answers, free = {}, {}

for i = 1, count do
  local holder = held and held[i]
  if not held then
    answers[i] = '-'
  elseif not holder then
    answers[i] = redis.pcall('EXISTS', KEYS[i]) == 0 and 'e' or '-'
  elseif holder ~= ARGV[i + 1] then
    answers[i] = 't'
  else
    answers[i] = 'r'
    free[#free + 1] = KEYS[i]
  end
end

if #free == 0 then return { 'answered', table.concat(answers) } end
local deleted = redis.pcall('DEL', unpack(free))
local done = {}
for i = 1, count do
  if answers[i] == 'r' then
    -- Refused, or a lock was in this call twice: the second time it is as if the first were over.
    answers[i] = type(deleted) ~= 'number' and '-' or done[KEYS[i]] and 'e' or 'r'
    done[KEYS[i]] = true
    if called and answers[i] == 'r' then callers_tell(KEYS[count + i]) end
  end
end
return { 'answered', table.concat(answers) }
