return {content = {{type = 'audio', data = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=', mimeType = 'audio/wav'}}}
