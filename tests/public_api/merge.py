"""Prints the public items of the package `metier`, where it shows items of other packages as its own.

usage: merge.py METIER.json METIER.txt PACKAGE.txt…

The first is rustdoc's JSON about the package; the others are lists of public items. `pub use` of an item of another package is replaced by
what the list of that package says of the item, under the name that it has here.
"""

import json
import re
import sys

# Between a path and what follows it.
SUBJECT = re.compile(r"^(?:#\[[^\]]*\] )*(?:pub (?:\w+ )*|impl(?:<.*?>)? )(?:(.*) for )?&?(\w+(?:::\w+)*)")
# A type where it is defined, as signatures name it.
DEFINED = re.compile(r"\b(metier_\w+)(?:::[a-z0-9_]+)*::([A-Z]\w*)")


def shown_items(index, module, path):
    """Where each item of another package is shown, by its own path."""
    for item in (index[str(id)] for id in index[str(module)]["inner"]["module"]["items"] if str(id) in index):
        kind, inner = next(iter(item["inner"].items()))
        if kind == "module" and item["visibility"] == "public":
            yield from shown_items(index, item["id"], f"{path}::{item['name']}")
        elif kind == "use" and inner["source"].startswith("metier_"):
            yield inner["source"], f"{path}::{inner['name']}"


about, own, *others = sys.argv[1:]
with open(about) as file:
    crate = json.load(file)
shown = dict(shown_items(crate["index"], crate["root"], "metier"))
lines = [line for line in open(own).read().splitlines() if not any(line == f"pub use {path}" for path in shown.values())]
by_length = sorted(shown, key=len, reverse=True)
for other in others:
    for line in open(other).read().splitlines():
        subject = SUBJECT.match(line)
        # Of a type that is not shown, no implementation counts.
        paths = [path for path in subject.groups() if path] if subject else []
        paths = paths[-1:] if paths and paths[-1].startswith("metier_") else paths
        if any(path == known or path.startswith((known + "::", known + "<")) for path in paths for known in by_length):
            lines.append(line)
names = re.compile(r"\b(" + "|".join(map(re.escape, by_length)) + r")\b")
types = {(path.split("::")[0], path.split("::")[-1]): shown[path] for path in shown}


def renamed(line):
    line = names.sub(lambda found: shown[found.group(1)], line)
    return DEFINED.sub(lambda found: types.get(found.groups(), found.group(0)), line)


for line in sorted(set(map(renamed, lines))):
    print(line)
