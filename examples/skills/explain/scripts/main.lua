ctx.progress("reading", 1, 2)
local answer = ctx.sample("Be brief.", "Explain " .. ctx.tool("selection", {}))
ctx.write("notes/answer.txt", answer)
return answer
