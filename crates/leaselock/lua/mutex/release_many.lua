-- mutex/release_many: release many mutexes at once, each for itself: those with an empty queue.
--
-- KEYS[…] locks      the locks of n items, then their n queues
-- ARGV[…] tokens     each holder's proof of ownership, in the order of the locks; at most 256
--
-- Returns {"answered", letters}   one letter for each item, in the order of the locks:
--           r  released: it is free
--           e  expired: there was no lock
--           t  taken: another client holds it; nothing was changed
--           -  any other case: nothing was done, use mutex/release
-- Replay  e or t: the first call did the work
-- Writes  locks
--#include many
local count = #ARGV
local answers = many_letters(KEYS, ARGV, 0, 'r', 't')

if count <= MANY_MAX and many_exist(KEYS, count + 1, 2 * count) then
  for i = 1, count do
    if answers[i] == 'r' and redis.pcall('EXISTS', KEYS[count + i]) ~= 0 then answers[i] = '-' end
  end
end
many_delete(KEYS, answers)
return { 'answered', table.concat(answers) }
