-- many: what the scripts that serve many requests at once share.
-- They serve the plain case and answer `-` for every other, for which nothing was done: its own script serves it.
-- All locks are read by one command and all lines by another, or both by one, so that an item costs little more than its own write. Its
-- answer is one letter in a text, because a text of its own would cost server and client as much as the write.
local MANY_MAX = 256 -- so that one call never holds the server for long

-- Reads only: the values of the keys from `first` to `last`, false for nothing and for what is no string; nil, when the
-- server will not say.
local function many_values(keys, first, last)
  local values = redis.pcall('MGET', unpack(keys, first, last))
  return not values.err and values or nil
end

-- Reads only: whether one of the keys from `first` to `last` is there, or may be.
local function many_exist(keys, first, last)
  return redis.pcall('EXISTS', unpack(keys, first, last)) ~= 0
end
