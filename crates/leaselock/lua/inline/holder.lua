-- holder: the client inside `held`, one of our own tokens, or '' for a foreign value. A token is 22 characters, its sign, and
-- 8 characters of client. The sign is '.', or '~' when the lease has no fencing token; of a token that a break has left
-- (lua/inline/broken.lua) '!' or '?'.
local holder = #held == 31 and string.match(held, '^[%w_-]+[.~!?]([%w_-]+)$') or ''
