return {id = input.id, templateTest = true, data = 'Data for ID: ' .. input.id}
