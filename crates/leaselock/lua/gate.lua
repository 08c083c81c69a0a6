-- gate: whether this server may grant, in strict mode (docs/strict.md). One that has forgotten leases, or whose clock
-- expires them early, grants nothing until every lease that an earlier one may have granted has expired.
-- On servers only.
-- The gate is a string without expiry, one for all locks of a prefix: 'server until_us longest_ms why'.
-- `server` is one process in one term as primary: its run id, and the id of the primary from which it was promoted, so
-- that a primary that was a replica meanwhile is another one. `until_us` is the server time until which nothing is
-- granted, '0' once that is over; `why` is set only until then. A gate that is missing is closed.

local function gate_server()
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local before = string.match(redis.call('INFO', 'replication'), 'master_replid2:(%w+)')
  if not run_id or not before then error('strict mode needs run_id and master_replid2 in INFO') end
  return run_id .. before
end

local function gate_value(server, until_us, longest_ms, why)
  return server .. ' ' .. until_us .. ' ' .. longest_ms .. (why and ' ' .. why or '')
end

-- Reads only: the parts of the gate; nothing when it is missing or not understood.
local function gate_read(gate)
  return string.match(redis.call('GET', gate) or '', '^(%w+) (%d+) (%d+) ?(%a*)$')
end

-- Reads only: whether a lock may be handed over.
local function gate_is_open(gate)
  local server, until_us = gate_read(gate)
  return until_us == '0' and server == gate_server()
end

-- Nothing when a lock may be granted; otherwise the answer. Closes the gate when it is another server's, and opens it
-- when its time is over: the next call finds it open. Reads the time only for an answer.
local function gate_refusal(gate, longest_ms, quarantine_ms)
  local here = gate_server()
  if redis.call('GET', gate) == gate_value(here, '0', longest_ms) then return nil end
  local time = redis.call('TIME')
--#inline now
  local server, until_us, its_longest_ms, why = gate_read(gate)
  if server and its_longest_ms ~= longest_ms then return { 'disagrees', its_longest_ms, now } end
  local left_ms = server == here and math.ceil((until_us - now) / 1000)
  if left_ms and left_ms <= 0 then
    redis.call('SET', gate, gate_value(here, '0', longest_ms))
    return { 'quarantined', 0, why, now }
  end
  -- More than all of it remains when the clock went back.
  if not left_ms or left_ms > tonumber(quarantine_ms) then
    why = server == here and why or server and 'moved' or 'missing'
    left_ms = tonumber(quarantine_ms)
    -- The write that memory pressure refuses comes second: a gate that is missing is closed too.
    redis.call('DEL', gate)
    redis.pcall('SET', gate, gate_value(here, string.format('%.0f', now + left_ms * 1000), longest_ms, why))
  end
  return { 'quarantined', left_ms, why, now }
end
