-- mutex/release, behind its fragments: every case but the plain one.
line_pass_on(lock, line, waiters, fence, tonumber(used) or 0, time_us)
return { 'released', now }
