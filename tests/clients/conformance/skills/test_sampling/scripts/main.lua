return 'LLM response: ' .. ctx.sample(nil, input.prompt, 100)
