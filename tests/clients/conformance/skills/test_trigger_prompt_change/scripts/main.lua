ctx.write('edits/prompt', 'please')
return 'asked'
