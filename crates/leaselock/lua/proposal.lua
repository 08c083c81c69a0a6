-- proposal: a fencing token that a client proposes to one node of a quorum. It holds here when it is larger than all
-- that this node has seen, and behind its clock by no more than the time for which a node without memory stays out of
-- votes.

-- Writes the number if it holds, and returns whether it does, and the least that would; nil and the error when the server
-- refuses.
local function proposal_accept(fence, proposed, now_us, behind_us)
  local wish = tonumber(proposed)
  if wish >= now_us - behind_us and wish < FENCE_END then
    local answer = fence_advance(fence, wish)
    if not answer.err then
      redis.call('PEXPIRE', fence, FENCE_KEPT_MS)
      return true, 0
    end
    if not string.find(answer.err, 'equal or smaller', 1, true) then return nil, fence_refusal(answer, fence) end
  end
  local last = fence_last(fence)
  if not last then return nil, fence_damaged(fence) end
  return false, math.max(tonumber(last) + 1, now_us)
end
