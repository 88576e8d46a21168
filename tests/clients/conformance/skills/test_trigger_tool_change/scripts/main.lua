ctx.write('edits/tool', 'please')
return 'asked'
