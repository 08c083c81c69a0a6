-- mutex/release, in front of it in strict mode: a hand-over is a grant, so behind a closed gate the lock is only deleted.
local lock, queue, token, gate = KEYS[1], KEYS[2], ARGV[1], KEYS[5]

if redis.call('EXISTS', queue) ~= 0 and not gate_is_open(gate) then
  local held = redis.call('GET', lock)
  if not held then return { 'expired' } end
  if held ~= token then return { 'taken' } end
  redis.call('DEL', lock)
  return { 'released' }
end
