-- many: what the scripts that serve many requests at once share.
-- They serve the plain case and answer `-` for every other, for which nothing was done: its own script serves it.
-- All locks are read by one command and all queues by another, or both by one, so that an item costs little more than
-- its own write. Its answer is one letter in a text, because a text of its own would cost server and client as much as
-- the write.
local MANY_MAX = 256 -- so that one call never holds the server for long

-- Reads only: the values of the keys from `first` to `last`, false for no key and for another type; nil when the server
-- refuses.
local function many_values(keys, first, last)
  local values = redis.pcall('MGET', unpack(keys, first, last))
  return not values.err and values or nil
end

-- Reads only: whether one of the keys from `first` to `last` exists, or may exist.
local function many_exist(keys, first, last)
  return redis.pcall('EXISTS', unpack(keys, first, last)) ~= 0
end

-- Reads only: a letter for each of the locks: `mine` where it holds its token, which is behind `before` other
-- arguments; `theirs` where there is another value, 'e' where there is no key, '-' where the server refuses or there are
-- too many.
local function many_letters(keys, args, before, mine, theirs)
  local count = #args - before
  local held = count <= MANY_MAX and many_values(keys, 1, count)
  local letters = {}
  for i = 1, count do
    local holder = held and held[i]
    if not held then
      letters[i] = '-'
    elseif not holder then
      letters[i] = redis.pcall('EXISTS', keys[i]) == 0 and 'e' or '-'
    else
      letters[i] = holder == args[before + i] and mine or theirs
    end
  end
  return letters
end

-- Writes: deletes the locks with the letter 'r'. Where that is refused the letter is '-', and 'e' for a lock that was
-- in this call before: the second item is answered as if the first had ended.
local function many_delete(keys, letters)
  local free, done = {}, {}
  for i = 1, #letters do
    if letters[i] == 'r' then free[#free + 1] = keys[i] end
  end
  if #free == 0 then return end
  local deleted = redis.pcall('DEL', unpack(free))
  if deleted == #free then return end
  for i = 1, #letters do
    if letters[i] == 'r' then
      letters[i] = type(deleted) ~= 'number' and '-' or done[keys[i]] and 'e' or 'r'
      done[keys[i]] = true
    end
  end
end
