#!/bin/sh
# Counts the paths of the project that match a pattern. Arguments come after `--`; the working directory is the project.
set -eu

pattern=${1:-*}
count=0
IFS= # so that a pattern may hold spaces
for path in $pattern; do
    if [ -e "$path" ]; then
        count=$((count + 1))
    fi
done
printf '{"count": %d}\n' "$count"
