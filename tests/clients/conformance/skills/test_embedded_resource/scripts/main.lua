return {content = {{type = 'resource', resource = {uri = 'https://example.com/embedded-resource', mimeType = 'text/plain', text = 'This is an embedded resource content.'}}}}
