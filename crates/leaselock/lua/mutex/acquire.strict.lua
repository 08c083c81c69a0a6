-- mutex/acquire, in front of it in strict mode: behind a closed gate nobody is granted and nobody joins the queue. Nor does
-- a token that holds learn so, because its lease may have ended, by another clock, before it was ever told of it.
local gate, longest_ms, quarantine_ms = KEYS[5], ARGV[4], ARGV[5]

local refusal = gate_refusal(gate, longest_ms, quarantine_ms)
if refusal then return refusal end
