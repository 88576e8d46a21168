-- `input` is the JSON of the call. `ctx` reaches the project; `metier api` lists all it can do.
local pattern = input.pattern or "*"

local files = ctx.glob(pattern)
ctx.log("info", `{#files} paths match {pattern}`)

return { pattern = pattern, count = #files, files = files }
