#!/bin/sh
# Lists the paths of the project that match a pattern.
set -eu

# The arguments are those after `--` in `metier run NAME -- ARGUMENTS`.
pattern=${1:-*}

# `metier ctx` calls a function of the host; `metier api` lists them. What the script prints is its result.
metier ctx glob "$pattern"
