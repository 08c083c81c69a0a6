-- quorum/withdraw, behind its fragments: every case but the plain one.
if caller ~= '' then redis.call('ZREM', callers, caller) end
if not held then return { 'expired' } end
if held ~= token then return { 'taken' } end
redis.call('DEL', lock)
if tell == '1' then callers_tell(callers) end
return { 'released' }
