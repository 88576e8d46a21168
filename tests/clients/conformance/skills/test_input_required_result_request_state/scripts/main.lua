return input.ok and 'state-ok' or 'not confirmed'
