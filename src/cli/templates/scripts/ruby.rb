#!/usr/bin/env ruby
# Lists the paths of the project that match a pattern.
require 'json'
require 'open3'

# The input is JSON on standard input; there is none where the caller gave none.
text = $stdin.read
input = text.strip.empty? ? {} : JSON.parse(text)
pattern = input.fetch('pattern', '*')

# `metier ctx` calls a function of the host; `metier api` lists them.
answer, status = Open3.capture2('metier', 'ctx', 'glob', pattern)
exit(status.exitstatus || 1) unless status.success?
files = JSON.parse(answer)

# What the script prints is its result.
puts JSON.generate(pattern: pattern, count: files.length, files: files)
