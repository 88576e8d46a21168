for _, done in {0, 50, 100} do
    ctx.progress('at work', done, 100)
end
return 'done'
