-- many_fence: fencing tokens for the scripts that acquire many locks at once: the time, in the plain case.

-- Writes the time as the number of a grant, and returns true when it is larger than every number before; otherwise the
-- fence keeps its value. The second value is true when the key's ttl was renewed. `fresh` is the value with that number.
local function many_fence_mint(fence, fresh, now)
  local TIME_LENGTH, COLON, SHARED = 16, 58, 115
  local before = redis.pcall('SET', fence, fresh, 'KEEPTTL', 'GET')
  if before then
    if type(before) == 'table' then return false end
    local length = #before
    if length ~= FENCE_LENGTH and not (length == FENCE_LENGTH + 1 and string.byte(before, length) == SHARED)
      or #now ~= TIME_LENGTH or string.byte(before, TIME_LENGTH + 1) ~= COLON
      or before >= now or string.sub(before, TIME_LENGTH + 2) >= now then
      -- The clock went back, this lock was in the call before, or the value is none of ours. A value that is no number
      -- passes when it sorts below the time: so does every number that it can have had.
      if before ~= fresh then redis.pcall('SET', fence, before, 'KEEPTTL') end
      return false
    end
  end
  -- A value that sorts below the time has the same leading digits, unless it sorts below these.
  local is_renewed = not before or before < string.sub(now, 1, SAME_10000_S)
  if is_renewed then redis.pcall('PEXPIRE', fence, FENCE_KEPT_MS) end
  return true, is_renewed
end
