-- gate_queue: in strict mode, that no waiter is granted behind a closed gate, because a hand-over is a grant.
-- On servers only.

-- Hides the waiters from every function unless the gate is open.
local function gate_hide_waiters(gate)
  if not gate_is_open(gate) then
    queue_visit = function() return {} end
  end
end
