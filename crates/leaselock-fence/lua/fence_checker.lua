-- fence_checker: a resource in Redis admits a holder, or refuses one that is late. For the counter, and for scripts of users.
-- The checker is a hash with the fields fence and owner: the largest fencing token that the resource has seen, and whose
-- grant it was. It has no ttl of its own: it must live as long as what it protects.
-- A double holds the numbers exactly: they are below 2^53.

-- Nil when the holder is admitted. Otherwise the reply {'stale', fence, owner} with what the resource has seen.
-- A holder may show its fence again: the second time changes nothing.
local function fence_admit(checker, fence, owner)
  local seen = redis.call('HMGET', checker, 'fence', 'owner')
  local shown, last = tonumber(fence), tonumber(seen[1] or '0')
  if shown < last or (shown == last and owner ~= seen[2]) then return { 'stale', seen[1], seen[2] } end
  if shown > last then redis.call('HSET', checker, 'fence', fence, 'owner', owner) end
end
