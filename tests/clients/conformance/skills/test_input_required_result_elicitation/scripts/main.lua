return 'Hello, ' .. input.name .. '!'
