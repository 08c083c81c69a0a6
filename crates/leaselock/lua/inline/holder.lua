-- holder: the client inside `held`, one of our own tokens, or '' for a foreign value. A token is 22 characters, '.' (or '~'
-- when the lease has no fencing token), and 8 characters of client.
local holder = #held == 31 and string.match(held, '^[%w_-]+[.~]([%w_-]+)$') or ''
