-- mutex/cancel, in front of it in strict mode: a hand-over is a grant, so behind a closed gate nobody is next.
local lock, token, gate = KEYS[1], ARGV[1], KEYS[5]

if redis.pcall('GET', lock) == token and not gate_is_open(gate) then
  line_pick = function() return nil, {} end
end
