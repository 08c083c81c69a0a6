-- quorum/withdraw_many: withdraw many votes at once, each for itself, and wake the first caller of each.
-- On servers only.
--
-- KEYS[…] locks      the locks of n items, then their n callers
-- ARGV[1] tell       '1' wakes the first caller that is alive, of each
-- ARGV[…] tokens     each caller's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: it was held, and is free
--           e  expired: there was no lock
--           t  taken: another client holds it; nothing was changed
--           -  any other case: nothing was done, use quorum/withdraw
-- Replay  e or t: the first call did the work
-- Writes  locks
--#include many callers
local tell = ARGV[1]
local count = #ARGV - 1
local answers = many_letters(KEYS, ARGV, 1, 'r', 't')

many_delete(KEYS, answers)
if tell == '1' and count <= MANY_MAX and many_exist(KEYS, count + 1, 2 * count) then
  for i = 1, count do
    if answers[i] == 'r' then callers_tell(KEYS[count + i]) end
  end
end
return { 'answered', table.concat(answers) }
