return 'Elicitation completed: ' .. input.titledSingle .. ' of ' .. #input.titledMulti
