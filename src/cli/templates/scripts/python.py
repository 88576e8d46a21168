#!/usr/bin/env python3
"""Lists the paths of the project that match a pattern."""

import json

# Nobody has to install this module. `ctx` has the functions of the host; `metier api` lists them.
from metier import ctx, input

pattern = (input or {}).get("pattern", "*")
files = ctx.glob(pattern)

# What the script prints is its result.
print(json.dumps({"pattern": pattern, "count": len(files), "files": files}))
