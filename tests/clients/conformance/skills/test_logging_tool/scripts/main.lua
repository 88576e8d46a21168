ctx.log('info', 'for the person who runs the server')
return 'logged'
