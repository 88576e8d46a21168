return {content = {
    {type = 'text', text = 'Multiple content types test:'},
    {type = 'image', data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', mimeType = 'image/png'},
    {type = 'resource', resource = {uri = 'https://example.com/mixed-content-resource', mimeType = 'application/json', text = '{"test":"data","value":123}'}},
}}
