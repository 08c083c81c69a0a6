-- mutex/break, in front of it in strict mode: a hand-over is a grant, so behind a closed gate nobody is next.
local gate = KEYS[5]

if not gate_is_open(gate) then
  line_pick = function() return nil, {} end
end
