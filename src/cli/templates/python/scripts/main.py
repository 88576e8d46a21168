#!/usr/bin/env python3
"""Answers with the paths of the project that match a pattern.

The input is one JSON text on standard input, the answer one on standard output; the working directory is the project.
"""

import json
import sys
from pathlib import Path


def is_shown(path):
    return not any(part.startswith(".") for part in path.parts)


def main():
    text = sys.stdin.read()
    given = json.loads(text) if text.strip() else {}
    pattern = given.get("pattern", "*")
    files = sorted(path.as_posix() for path in Path().glob(pattern) if is_shown(path))
    json.dump({"pattern": pattern, "count": len(files), "files": files}, sys.stdout)


if __name__ == "__main__":
    main()
