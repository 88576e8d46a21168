return 'User response: ' .. input.username .. ' ' .. input.email
