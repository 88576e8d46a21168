//! Host functions that search file contents and find files by name.

use globset::GlobBuilder;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::{Entry, Grep, GrepMatch, WalkFilter};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::functions::walk_results::{AnswerOverhead, collect_entries, log_skipped};
use crate::host::{Args, RunContext, SkillContext};

pub(super) const GREP: HostFunction = HostFunction {
    name: "grep",
    aliases: &["vfs_grep"],
    params: &[
        Param { name: "pattern", value_type: ValueType::Text, required: true, doc: "the text to search for" },
        Param {
            name: "path",
            value_type: ValueType::Path,
            required: false,
            doc: "a file, or a folder to search whole; the root by default",
        },
        Param {
            name: "options",
            value_type: ValueType::Record(GREP_OPTIONS),
            required: false,
            doc: "how to search",
        },
    ],
    returns: ValueType::List(&ValueType::Record(GREP_ROW)),
    access: AccessRule::Read(1),
    doc: "Answers with the lines that have the text in them, sorted by file. Binary files, hidden names and what .gitignore \
          lists are passed over, links are not followed. More than 20,000 lines without `max` are an error.",
    example: FunctionExample {
        files: &[("src/a.rs", "fn a() {}\n// TODO: b\n"), ("notes.md", "TODO\n"), (".env", "TODO\n")],
        fixtures: "",
        grants: &[],
        args: r#"["TODO"]"#,
        answer: r#"[{"file": "notes.md", "line": 1, "content": "TODO"}, {"file": "src/a.rs", "line": 2, "content": "// TODO: b"}]"#,
    },
    body: grep,
};

pub(super) const GLOB: HostFunction = HostFunction {
    name: "glob",
    aliases: &["vfs_glob"],
    params: &[
        Param {
            name: "pattern",
            value_type: ValueType::Text,
            required: true,
            doc: "a path from the root with `*` and `?` within a name, `**` across folders, `[a-z]` and `{a,b}`",
        },
        SEARCH_OPTIONS,
    ],
    returns: ValueType::List(&ValueType::Text),
    access: AccessRule::ReadRoot,
    doc: "Answers with the paths of files and folders that match, sorted. Hidden names and what .gitignore lists are passed \
          over, links are not followed.",
    example: FunctionExample {
        files: &[("src/a.rs", ""), ("src/deep/b.rs", ""), ("c.rs", ""), ("src/d.txt", "")],
        fixtures: "",
        grants: &[],
        args: r#"["src/**/*.rs"]"#,
        answer: r#"["src/a.rs", "src/deep/b.rs"]"#,
    },
    body: glob,
};

pub(super) const FIND: HostFunction = HostFunction {
    name: "find",
    aliases: &["vfs_find"],
    params: &[
        Param {
            name: "path",
            value_type: ValueType::Path,
            required: true,
            doc: "the folder to search whole",
        },
        Param {
            name: "text",
            value_type: ValueType::Text,
            required: true,
            doc: "what the name must contain",
        },
        SEARCH_OPTIONS,
    ],
    returns: ValueType::List(&ValueType::Text),
    access: AccessRule::Read(0),
    doc: "Answers with the paths of files and folders whose name contains a text, sorted. Hidden names and what .gitignore \
          lists are passed over, links are not followed.",
    example: FunctionExample {
        files: &[("src/main.rs", ""), ("docs/main/x", ""), ("remains.md", "")],
        fixtures: "",
        grants: &[],
        args: r#"[".", "main"]"#,
        answer: r#"["docs/main", "remains.md", "src/main.rs"]"#,
    },
    body: find,
};

const HIDDEN: Param = Param {
    name: "hidden",
    value_type: ValueType::Boolean,
    required: false,
    doc: "take in names that begin with a dot; false by default",
};

/// The options of every walk.
pub(super) const SEARCH_OPTIONS: Param = Param {
    name: "options",
    value_type: ValueType::Record(&[HIDDEN]),
    required: false,
    doc: "what to pass over",
};

const GREP_OPTIONS: &[Param] = &[
    Param {
        name: "regex",
        value_type: ValueType::Boolean,
        required: false,
        doc: "the pattern is a regular expression; false by default",
    },
    Param {
        name: "ignore_case",
        value_type: ValueType::Boolean,
        required: false,
        doc: "upper and lower case are alike; false by default",
    },
    Param {
        name: "max",
        value_type: ValueType::Count,
        required: false,
        doc: "answer with the first so many lines",
    },
    Param {
        name: "context",
        value_type: ValueType::Count,
        required: false,
        doc: "answer also with so many lines before and after, at most 100; 0 by default",
    },
    HIDDEN,
];

const GREP_ROW: &[Param] = &[
    Param {
        name: "file",
        value_type: ValueType::Text,
        required: true,
        doc: "the file, relative to the root",
    },
    Param { name: "line", value_type: ValueType::Count, required: true, doc: "the line's number, from 1" },
    Param {
        name: "content",
        value_type: ValueType::Text,
        required: true,
        doc: "the line; of one beyond 2,000 bytes, the beginning and `…`",
    },
    Param {
        name: "before",
        value_type: ValueType::List(&ValueType::Text),
        required: false,
        doc: "lines before it, with `context`",
    },
    Param {
        name: "after",
        value_type: ValueType::List(&ValueType::Text),
        required: false,
        doc: "lines after it, with `context`",
    },
];

const MAX_CONTEXT_LINES: u64 = 100;
/// Bytes a pattern for paths may have.
const MAX_GLOB_BYTES: usize = 1 << 10;
/// Letters of a pattern that an error repeats.
const MAX_SHOWN_CHARS: usize = 200;
/// Maximum bytes of the compiled pattern, and of the memory that it uses during a search.
const MAX_COMPILED_GLOB_BYTES: usize = 1 << 20;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SearchOptions {
    hidden: bool,
}

impl SearchOptions {
    pub(super) fn walk_filter(&self) -> WalkFilter {
        walk_filter(self.hidden)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GrepOptions {
    regex: bool,
    ignore_case: bool,
    max: Option<usize>,
    context: u64,
    hidden: bool,
}

fn grep(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let options: GrepOptions = args.options(2)?;
    let pattern = if options.regex { Grep::regex } else { Grep::literal };
    let mut grep = pattern(args.text(0), options.ignore_case)?;
    if options.context > MAX_CONTEXT_LINES {
        let sentence = format!("grep: context is at most {MAX_CONTEXT_LINES} lines, got {}", options.context);
        return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
    }
    grep = grep.context(usize::try_from(options.context).unwrap_or_default());
    if let Some(max) = options.max {
        grep = grep.max(max);
    }
    grep = grep.thread_budget(ctx.thread_budget().clone());
    let found = ctx.project_view()?.grep(args.text(1), &grep, walk_filter(options.hidden), ctx.cancel())?;
    log_skipped(ctx, &found.skipped)?;
    Ok(found.rows.into_iter().map(GrepMatch::into_value).collect())
}

fn glob(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let pattern = args.text(0);
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        let sentence = format!("{pattern} is outside the project; patterns start at its root");
        return Err(SkillError::new(ErrorKind::OutsideProject, sentence));
    }
    let matcher = compile_glob(pattern)?;
    let depth = (!pattern.contains("**")).then(|| pattern.matches('/').count() + 1);
    let SearchOptions { hidden } = args.options(1)?;
    let is_match = |entry: &Entry| matcher.is_match(entry.path.as_bytes());
    Ok(paths(collect_entries(ctx, "", walk_filter(hidden), depth, is_match, AnswerOverhead::Text)?.0))
}

/// The pattern as what finds it, or `invalid-argument`, also where it is too large.
fn compile_glob(pattern: &str) -> Result<Regex> {
    let refused = |why: &str| Err(SkillError::new(ErrorKind::InvalidArgument, why));
    let shown: String = pattern.chars().take(MAX_SHOWN_CHARS).collect();
    if pattern.len() > MAX_GLOB_BYTES {
        let sentence = format!("the pattern has {} bytes; the maximum is {MAX_GLOB_BYTES}", pattern.len());
        return refused(&sentence);
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    match glob {
        // Its own way to be compiled knows no error.
        Ok(glob) => RegexBuilder::new(glob.regex())
            .dot_matches_new_line(true)
            .size_limit(MAX_COMPILED_GLOB_BYTES)
            .dfa_size_limit(MAX_COMPILED_GLOB_BYTES)
            .build()
            .or_else(|_| refused(&format!("the pattern {shown:?} is too large"))),
        Err(error) => refused(&format!("invalid pattern {shown:?}: {}", error.kind())),
    }
}

fn find(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let SearchOptions { hidden } = args.options(2)?;
    let (start, text) = (ctx.project_view()?.resolve_folder(args.text(0))?, args.text(1));
    let has_text = |entry: &Entry| entry.path.rsplit('/').next().is_some_and(|name| name.contains(text));
    Ok(paths(collect_entries(ctx, &start, walk_filter(hidden), None, has_text, AnswerOverhead::Text)?.0))
}

fn walk_filter(hidden: bool) -> WalkFilter {
    if hidden { WalkFilter::SkipIgnored } else { WalkFilter::SkipHiddenAndIgnored }
}

fn paths(found: Vec<Entry>) -> Value {
    found.into_iter().map(|entry| Value::String(entry.path)).collect()
}
