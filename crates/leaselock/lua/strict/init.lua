-- strict/init: open the gate of strict mode, for an operator who knows that no client holds a lock. On servers only.
--
-- KEYS[1] gate        string; its server, until when it is closed, the longest ttl (lua/gate.lua)
-- ARGV[1] longest_ms  integer > 0; the longest ttl that any lease behind this gate will have
--
-- Returns {"opened", time_us}    grants resume at once
-- Replay  the same answer
-- Writes  gate
--#include prelude gate
local gate, longest_ms = KEYS[1], ARGV[1]

local now_us = clock_us()
redis.call('SET', gate, gate_value(gate_server(), '0', longest_ms))
return { 'opened', whole(now_us) }
