#!/usr/bin/env python3
"""Writes a changelog from the git history. SKILL.md says what comes in and what goes out."""

import json
import os
import re
import subprocess
import sys

# Title, and the commit types below it; the order of the changelog. What fits nowhere else goes into the last section.
SECTIONS = [
    ("Breaking changes", []),
    ("Added", ["feat", "feature"]),
    ("Fixed", ["fix", "bugfix", "hotfix"]),
    ("Faster", ["perf"]),
    ("Reverted", ["revert"]),
    ("Documentation", ["docs", "doc"]),
    ("Maintenance", ["build", "chore", "ci", "deps", "refactor", "style", "test", "tests"]),
    ("Other", []),
]
BREAKING, OTHER = SECTIONS[0][0], SECTIONS[-1][0]
TITLES = {kind: title for title, kinds in SECTIONS for kind in kinds}

HEADER = re.compile(r"(?P<type>[A-Za-z]+)(?:\((?P<scope>[^()]+)\))?(?P<breaking>!)?: +(?P<subject>\S.*)")
FOOTER = re.compile(r"^BREAKING[ -]CHANGE: +(?P<said>.+(?:\n(?![\w-]+(?:: | #)).+)*)", re.MULTILINE)
# What Markdown would obey. An underscore within a word is none of it.
MARKUP = re.compile(r"(?P<code>`[^`]+`)|[\\*<\[\]`]|(?<!\w)_|_(?!\w)")

# A repository's own configuration must not start programs or change what git prints.
GIT = ["git", "--no-pager", "-c", "log.showSignature=false", "-c", "core.abbrev=auto", "-c", "core.fsmonitor=false"]
ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def main():
    options = checked(sys.stdin.buffer.read())
    to = options["to"] or "HEAD"
    end = commit(to)
    since = options["from"] or newest_tag_before(end)
    span = f"{commit(since)}..{end}" if since else end
    entries = [entry(*fields) for fields in commits(span)]
    release = tag_on(end)
    report = {
        "from": since,
        "to": to,
        "title": re.sub(r"^v(?=\d)", "", release) if release else "Unreleased",
        "date": git("show", "--no-patch", "--format=%cs", end) if release else None,
        "commits": len(entries),
        "sections": sections(entries),
    }
    text = markdown(report) if options["format"] == "markdown" else json.dumps(report, ensure_ascii=False)
    sys.stdout.buffer.write(f"{text}\n".encode())


def checked(written):
    """The input with its defaults; ends the script with a sentence when it is wrong."""
    try:
        given = json.loads(written) if written.strip() else {}
    except ValueError as error:
        fail(f"the input is not JSON: {error}")
    if not isinstance(given, dict):
        fail("the input must be an object with from, to and format")
    options = {"from": None, "to": None, "format": "markdown"}
    for name, value in given.items():
        if name not in options:
            fail(f"the input has no field {name}; the fields are {', '.join(options)}")
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            fail(f"{name} must be a string that is not empty")
        options[name] = value
    if options["format"] not in ("markdown", "json"):
        fail(f"format must be markdown or json, not {options['format']}")
    return options


def commit(name):
    """The hash of the commit that a tag, branch or hash stands for. No name is read as an option."""
    found = maybe_git("rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}")
    if found:
        return found
    git("rev-parse", "--git-dir")
    if name == "HEAD":
        if maybe_git("rev-parse", "--verify", "--quiet", "HEAD"):
            # It names a commit, which cannot be read.
            git("cat-file", "commit", "HEAD")
        fail("the repository has no commits yet")
    fail(f"no tag, branch or commit is called {name}")


def newest_tag_before(end):
    """The newest tag on a commit before this one, or nothing."""
    return maybe_git("describe", "--tags", "--abbrev=0", end + "^")


def tag_on(end):
    """The tag that stands on this very commit, or nothing."""
    return maybe_git("describe", "--tags", "--exact-match", end)


def commits(span):
    """Hash, subject and body of each commit, newest first."""
    log = git("log", "--no-merges", "-z", "--format=%h%n%s%n%b", span)
    for record in filter(None, log.split("\0")):
        short, subject, body = record.split("\n", 2)
        yield short, subject, body


def entry(short, subject, body):
    """One commit as the conventions read it."""
    said = " ".join(" ".join(footer["said"].split()) for footer in FOOTER.finditer(body)) or None
    header = HEADER.fullmatch(subject)
    if header and header["breaking"]:
        said = said or header["subject"]
    if not header or header["type"].lower() not in TITLES:
        return {"hash": short, "type": None, "scope": None, "subject": subject, "breaking": said}
    kind = header["type"].lower()
    return {"hash": short, "type": kind, "scope": header["scope"], "subject": header["subject"], "breaking": said}


def sections(entries):
    """The sections that have entries, in their order."""
    grouped = {title: [] for title, _ in SECTIONS}
    for one in entries:
        title = BREAKING if one["breaking"] else TITLES.get(one["type"], OTHER)
        grouped[title].append(one)
    return [{"title": title, "entries": found} for title, found in grouped.items() if found]


def markdown(report):
    date = f" ({report['date']})" if report["date"] else ""
    parts = [f"## {report['title']}{date}"]
    for section in report["sections"]:
        parts.append(f"### {section['title']}")
        parts.append("\n".join(line(one) for one in section["entries"]))
    if not report["sections"]:
        parts.append("No changes.")
    return "\n\n".join(parts)


def line(one):
    scope = f"**{plain(one['scope'])}:** " if one["scope"] else ""
    return f"- {scope}{plain(one['breaking'] or one['subject'])} ({one['hash']})"


def plain(text):
    """Text that Markdown shows as it was written; `code` stays code."""
    return MARKUP.sub(lambda found: found[0] if found["code"] else "\\" + found[0], text)


def git(*args):
    """What git prints; its own first and last words end the script when it fails."""
    done = run(args)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        fail(f"git {args[0]} failed: {'; '.join(dict.fromkeys([words[0], words[-1]]))}")
    return done.stdout.strip("\n")


def maybe_git(*args):
    """What git prints, or nothing when it fails."""
    done = run(args)
    return done.stdout.strip("\n") if done.returncode == 0 else None


def run(args):
    try:
        return subprocess.run(
            [*GIT, *args],
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        fail("git is not installed")


def fail(sentence):
    sys.exit(sentence)


if __name__ == "__main__":
    main()
