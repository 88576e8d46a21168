//! The reference page of the host API, `docs/host-api.md`.

use metier::host::{HostFunction, ValueType, functions};

use super::types;

const HEAD: &str = "# The host API

What a script may call on `ctx`: the same functions, values and errors in every language. This page is written by
`metier api --markdown` from the one table of them; do not edit it.

- **Lua**: `ctx.read_file(\"a.txt\")`; a failure is an error with `kind` and `message`.
- **Rhai**: `ctx.read_file(\"a.txt\")`; a failure is thrown, with `kind` and `message`.
- **WebAssembly**: the import `read_file` of `extism:host/user`, one `i64` for each parameter (the offset of its JSON, 0
  for none); it returns the offset of `{\"ok\": value}` or `{\"error\": {kind, message}}`.

Parameters marked `?` may be left out. A function that is not permitted stays callable and fails with a sentence that
names the permission and how to grant it.";

pub(super) fn markdown() -> String {
    let mut parts = vec![HEAD.to_owned(), index()];
    parts.extend(functions().iter().map(|function| section(function)));
    parts.join("\n\n") + "\n"
}

fn index() -> String {
    let row = |function: &&HostFunction| {
        let permission = function.access.permission().map_or(String::new(), |name| format!("`{name}`"));
        format!("| [`{}`](#{}) | {permission} |", function.signature(), function.name)
    };
    let rows: Vec<String> = functions().iter().map(row).collect();
    format!("| function | permission |\n|---|---|\n{}", rows.join("\n"))
}

fn section(function: &HostFunction) -> String {
    let mut lines = vec![
        format!("## {}", function.name),
        String::new(),
        format!("`ctx.{}` → {}", function.signature(), types::json(&function.returns)),
        String::new(),
        function.doc.to_owned(),
        String::new(),
    ];
    for param in function.params {
        lines.push(format!("- `{}` ({}): {}", param.name, type_label(&param.value_type), param.doc));
        if let ValueType::Record(fields) = param.value_type {
            lines.extend(
                fields
                    .iter()
                    .map(|key| format!("  - `{}` ({}): {}", key.name, types::json(&key.value_type), key.doc)),
            );
        }
    }
    if let Some(permission) = function.access.permission() {
        lines.push(format!("- permission: `{permission}`"));
    }
    if !function.aliases.is_empty() {
        let aliases: Vec<String> = function.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        lines.push(format!("- also called {}", aliases.join(", ")));
    }
    lines.push(String::new());
    lines.push(format!("Example: `{}`", example_call(function)));
    lines.join("\n")
}

/// The keys of a record are listed below it.
fn type_label(value_type: &ValueType) -> String {
    match value_type {
        ValueType::Record(_) => "object".into(),
        other => types::json(other),
    }
}

fn example_call(function: &HostFunction) -> String {
    let arguments = function.example.args.trim().trim_start_matches('[').trim_end_matches(']');
    format!("ctx.{}({arguments})` answers `{}", function.name, function.example.answer)
}
