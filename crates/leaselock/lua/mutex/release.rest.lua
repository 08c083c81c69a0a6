-- mutex/release, behind its fragments: every case but the plain ones.
if out then line_add(queue, waiters, out, line_score(line_place(out).priority)) end
line_pass_on(lock, queue, waiters, fence, tonumber(used) or 0, clock_of(time))
return { 'released' }
