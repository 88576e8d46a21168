error('This tool intentionally returns an error for testing')
