-- gate_queue: strict mode. A hand-over is a grant, so a script that would hand over grants no waiter behind a closed gate.
-- On servers only.

-- Hides the waiters from every function unless the gate is open.
local function gate_hide_waiters(gate)
  if not gate_is_open(gate) then
    queue_visit = function() return {} end
  end
end
