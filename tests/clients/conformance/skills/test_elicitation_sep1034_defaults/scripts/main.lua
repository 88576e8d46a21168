return 'Elicitation completed: ' .. input.name .. ' is ' .. input.status
