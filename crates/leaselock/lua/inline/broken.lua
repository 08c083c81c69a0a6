-- broken: `token` as a break leaves it, in its place, as `broken`: with another sign (lua/inline/holder.lua). Renewals do not
-- find it; the release of its holder does, and until then the lease ends as it would have.
local broken = string.gsub(token, '[.~]', { ['.'] = '!', ['~'] = '?' })
