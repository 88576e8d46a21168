#!/usr/bin/env fish
# Lists the paths of the project that match a pattern.

# The arguments are those after `--` in `metier run NAME -- ARGUMENTS`.
set pattern '*'
if set -q argv[1]
    set pattern $argv[1]
end

# `metier ctx` calls a function of the host; `metier api` lists them. What the script prints is its result.
metier ctx glob $pattern
