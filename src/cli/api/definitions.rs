//! Definition files: what editors need to complete and check `ctx` in Luau and Rhai.

use metier::host::{HostFunction, Param, functions};

use super::types;

/// The file that luau-lsp reads with `--definitions=metier.d.luau`.
pub(super) fn luau() -> String {
    let mut lines = vec![
        "-- The global names that metier adds to Luau. Written by `metier api --definitions lua`.".to_owned(),
        "-- `ctx.f(x)` and `ctx:f(x)` are the same call; these definitions have the first form.".to_owned(),
        String::new(),
        "declare input: any".to_owned(),
        "declare null: any".to_owned(),
        "declare array: (items: {any}?) -> {any}".to_owned(),
        "declare json: {encode: (value: any) -> string, decode: (text: string) -> any}".to_owned(),
        "declare vfs: {[string]: (...any) -> any}".to_owned(),
        "declare ctx: {".to_owned(),
    ];
    for function in functions() {
        lines.extend(documentation(function).map(|line| format!("    --- {line}")));
        let params: Vec<String> = function
            .params
            .iter()
            .map(|param| format!("{}: {}", param.name, types::luau_param(param)))
            .collect();
        let returns = types::luau(&function.returns);
        for name in names(function) {
            lines.push(format!("    {name}: ({}) -> {returns},", params.join(", ")));
        }
    }
    lines.push("}".to_owned());
    lines.join("\n")
}

/// The file that Rhai's language server reads beside a script.
pub(super) fn rhai() -> String {
    let mut blocks = vec![
        "// The global names that metier adds to Rhai. Written by `metier api --definitions rhai`.\nmodule static;"
            .to_owned(),
        "let input: ?;".to_owned(),
        "const ctx: ctx;".to_owned(),
    ];
    for function in functions() {
        let doc: Vec<String> = documentation(function).map(|line| format!("/// {line}\n")).collect();
        for name in names(function) {
            // Only the function's own name has the documentation.
            let doc = if name == function.name {
                doc.concat()
            } else {
                format!("/// Another name of `{}`.\n", function.name)
            };
            blocks.extend(overloads(function).map(|params| {
                let typed =
                    params.iter().map(|param| format!("{}: {}", param.name, types::rhai(&param.value_type)));
                let params: Vec<String> = std::iter::once("_: ctx".to_owned()).chain(typed).collect();
                let returns = types::rhai(&function.returns);
                format!("{doc}fn {name}({}) -> {returns};", params.join(", "))
            }));
        }
    }
    blocks.join("\n\n")
}

fn names(function: &HostFunction) -> impl Iterator<Item = &'static str> {
    std::iter::once(function.name).chain(function.aliases.iter().copied())
}

fn documentation(function: &HostFunction) -> impl Iterator<Item = String> {
    let params = function.params.iter().map(|param| format!("{}: {}", param.name, param.doc));
    std::iter::once(function.doc.to_owned()).chain(params)
}

/// Rhai chooses a function by the number of arguments, so each number that is allowed is one overload.
fn overloads(function: &HostFunction) -> impl Iterator<Item = &'static [Param]> {
    let params = function.params;
    let min = params.iter().rposition(|param| param.required).map_or(0, |last| last + 1);
    (min..=params.len()).map(move |count| &params[..count])
}
