//! Host functions that list the project: names, metadata, the tree.

use serde::Deserialize;
use serde_json::{Value, json};

use super::search::{SEARCH_OPTIONS, SearchOptions};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::EntryKind;
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::functions::walk_results::{AnswerOverhead, collect_entries};
use crate::host::memory::HostMemoryReservation;
use crate::host::{Args, SkillContext};

pub(super) const LIST_DIR: HostFunction = HostFunction {
    name: "list_dir",
    aliases: &["vfs_list_dir", "vfs_list"],
    params: &[FOLDER],
    returns: ValueType::List(&ValueType::Text),
    access: AccessRule::Read(0),
    doc: "Answers with the names in a folder, hidden ones too, sorted. Bytes of a name that are not UTF-8 are written as \
          `\\xFF`, and every function takes the name in that form.",
    example: FunctionExample {
        files: &[("src/b.rs", ""), ("src/a.rs", ""), ("src/.keep", "")],
        fixtures: "",
        grants: &[],
        args: r#"["src"]"#,
        answer: r#"[".keep", "a.rs", "b.rs"]"#,
    },
    body: list_dir,
};

pub(super) const STAT: HostFunction = HostFunction {
    name: "stat",
    aliases: &["vfs_stat"],
    params: &[
        Param {
            name: "path",
            value_type: ValueType::Path,
            required: true,
            doc: "the file or folder; links are followed",
        },
        Param {
            name: "options",
            value_type: ValueType::Record(STAT_OPTIONS),
            required: false,
            doc: "what else to tell",
        },
    ],
    returns: ValueType::Record(STAT_FIELDS),
    access: AccessRule::Read(0),
    doc: "Answers with the facts about a file or folder.",
    example: FunctionExample {
        files: &[("notes.txt", "one\n")],
        fixtures: "",
        grants: &[],
        args: r#"["notes.txt"]"#,
        answer: r#"{"size": 4, "is_dir": false, "is_file": true, "is_symlink": false, "readonly": false}"#,
    },
    body: stat,
};

pub(super) const TREE: HostFunction = HostFunction {
    name: "tree",
    aliases: &["vfs_tree"],
    params: &[
        FOLDER,
        Param {
            name: "depth",
            value_type: ValueType::Count,
            required: false,
            doc: "how many folders deep; 3 by default",
        },
        SEARCH_OPTIONS,
    ],
    returns: ValueType::List(&ValueType::Record(TREE_ROW)),
    access: AccessRule::Read(0),
    doc: "Answers with a folder and what lies below it, sorted by path. Hidden names and what .gitignore lists are passed \
          over, links are not followed.",
    example: FunctionExample {
        files: &[("src/main.rs", ""), ("src/deep/er/x", ""), ("target/out", ""), (".gitignore", "target\n")],
        fixtures: "",
        grants: &[],
        args: r#"[".", 2]"#,
        answer: r#"[{"path": ".", "is_dir": true}, {"path": "src", "is_dir": true}, {"path": "src/deep", "is_dir": true},
                    {"path": "src/main.rs", "is_dir": false}]"#,
    },
    body: tree,
};

const FOLDER: Param = Param {
    name: "path",
    value_type: ValueType::Path,
    required: false,
    doc: "the folder; the root by default",
};
const DEFAULT_DEPTH: u64 = 3;

const STAT_OPTIONS: &[Param] = &[Param {
    name: "modified",
    value_type: ValueType::Boolean,
    required: false,
    doc: "also answer when the content was last changed; false by default",
}];

const STAT_FIELDS: &[Param] = &[
    Param { name: "size", value_type: ValueType::Count, required: true, doc: "bytes" },
    Param { name: "is_dir", value_type: ValueType::Boolean, required: true, doc: "whether it is a folder" },
    Param {
        name: "is_file",
        value_type: ValueType::Boolean,
        required: true,
        doc: "whether it is a regular file",
    },
    Param {
        name: "is_symlink",
        value_type: ValueType::Boolean,
        required: true,
        doc: "whether the path itself is a link; the rest is about what it leads to",
    },
    Param {
        name: "readonly",
        value_type: ValueType::Boolean,
        required: true,
        doc: "whether nobody may write to it",
    },
    Param {
        name: "modified",
        value_type: ValueType::Count,
        required: false,
        doc: "milliseconds since 1970-01-01 UTC, when asked for and known",
    },
];

const TREE_ROW: &[Param] = &[
    Param {
        name: "path",
        value_type: ValueType::Text,
        required: true,
        doc: "relative to the root, which is `.`",
    },
    Param { name: "is_dir", value_type: ValueType::Boolean, required: true, doc: "whether it is a folder" },
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StatOptions {
    modified: bool,
}

fn list_dir(ctx: &SkillContext, args: &Args) -> Result<Value> {
    Ok(ctx.project_view()?.list(args.text(0))?.into())
}

fn stat(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let StatOptions { modified } = args.options(1)?;
    let mut facts = ctx.project_view()?.stat(args.text(0))?;
    facts.modified = facts.modified.filter(|_| modified);
    serde_json::to_value(&facts).map_err(|error| SkillError::new(ErrorKind::InvalidOutput, error.to_string()))
}

fn tree(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let options: SearchOptions = args.options(2)?;
    let depth = usize::try_from(args.count(1).unwrap_or(DEFAULT_DEPTH)).unwrap_or(usize::MAX);
    let start = ctx.project_view()?.resolve_folder(args.text(0))?;
    let (found, _reservation) = match depth {
        0 => (Vec::new(), HostMemoryReservation::uncounted()),
        depth => collect_entries(
            ctx,
            &start,
            options.walk_filter(),
            Some(depth),
            |_| true,
            AnswerOverhead::Record,
        )?,
    };
    let first = if start.is_empty() { "." } else { &start };
    let start_row = json!({"path": first, "is_dir": true});
    let rows =
        found.into_iter().map(|entry| json!({"path": entry.path, "is_dir": entry.kind == EntryKind::Dir}));
    Ok(std::iter::once(start_row).chain(rows).collect())
}
