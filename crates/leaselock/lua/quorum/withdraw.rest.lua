-- quorum/withdraw, behind its fragments: every case but the plain one.
if caller ~= '' then redis.pcall('ZREM', callers, caller) end
if not held then
  -- Whoever was told of a release and goes away before it has voted leaves that to the next.
  if tell == '1' and caller ~= '' then callers_tell(callers) end
  return { 'expired' }
end
if held ~= token then return { 'taken' } end
redis.call('DEL', lock)
if tell == '1' then callers_tell(callers) end
return { 'released' }
