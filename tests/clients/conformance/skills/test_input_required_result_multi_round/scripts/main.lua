return input.name .. ' likes ' .. input.color
