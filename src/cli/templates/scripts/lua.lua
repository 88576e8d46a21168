-- `input` is the input as a value. `ctx` has the functions of the host; `metier api` lists them.
local pattern = input.pattern or "*"

local files = ctx.glob(pattern)
ctx.log("info", `{#files} paths match {pattern}`)

return { pattern = pattern, count = #files, files = files }
