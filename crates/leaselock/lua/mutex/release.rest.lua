-- mutex/release, behind its fragments: every case but the plain ones.
if out then line_add(line, waiters, out, line_score(line_place(out).priority)) end
line_pass_on(lock, line, waiters, fence, tonumber(used) or 0, clock_of(time))
return { 'released' }
