-- proposal: a fencing token that a client proposes to one node of a quorum. It holds here when it is larger than all
-- that this node has seen, and behind its clock by no more than the time for which a node without memory stays out of
-- votes.

-- Reads only: whether the number holds over the former value of the fence, and the least that would; nil when that
-- value is damaged. A number that would damage it does not hold.
local function proposal_holds(before, wish, now_us, behind_us)
  local last = 0
  if before then
    local _, known = fence_parse(before)
    if not known then return nil end
    last = known
  end
  return wish > last and wish >= now_us - behind_us and wish < FENCE_END, math.max(last + 1, now_us)
end

-- Writes the number over the former value of the fence. Returns the server's refusal, or nil. As in lua/fence.lua,
-- which precedes this, the expiry of the key stays as it is while the leading digits do, which costs half as much.
local function proposal_write(fence, before, proposed)
  local number = proposed .. ':' .. proposed
  local written
  if before and #before == FENCE_LENGTH and #number == FENCE_LENGTH
    and string.sub(before, 1, SAME_10000_S) == string.sub(number, 1, SAME_10000_S) then
    written = redis.pcall('SET', fence, number, 'KEEPTTL')
  elseif before then
    written = redis.pcall('SET', fence, number, 'PX', FENCE_KEPT_MS)
  else
    written = redis.pcall('SET', fence, number, 'PX', FENCE_KEPT_MS, 'NX') -- another type is there
  end
  if written and written.ok then return nil end
  return written or { err = 'WRONGTYPE the fence holds no number' }
end
