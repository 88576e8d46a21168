return 'ran with what the person allowed'
