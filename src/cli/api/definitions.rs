//! Definition files: what editors need to complete and check `ctx` in Luau and Rhai.

use metier::host::{HostFunction, Param, functions};

use super::types;

/// What luau-lsp reads with `--definitions=metier.d.luau`.
pub(super) fn luau() -> String {
    let mut lines = vec![
        "-- What a Lua skill of metier sees beside Luau itself. Written by `metier api --stub lua`."
            .to_owned(),
        "-- `ctx.f(x)` and `ctx:f(x)` mean the same; these definitions know the first.".to_owned(),
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

/// What Rhai's language server reads beside a script.
pub(super) fn rhai() -> String {
    let mut blocks = vec![
        "// What a Rhai skill of metier sees beside Rhai itself. Written by `metier api --stub rhai`.\nmodule static;"
            .to_owned(),
        "let input: ?;".to_owned(),
        "const ctx: ctx;".to_owned(),
    ];
    for function in functions() {
        let doc: Vec<String> = documentation(function).map(|line| format!("/// {line}\n")).collect();
        for name in names(function) {
            // Another name says no more than its overloads.
            let doc = if name == function.name {
                doc.concat()
            } else {
                format!("/// {}, by another name.\n", function.name)
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

/// Rhai picks by the number of arguments: one overload for each number that will do.
fn overloads(function: &HostFunction) -> impl Iterator<Item = &'static [Param]> {
    let params = function.params;
    let least = params.iter().rposition(|param| param.required).map_or(0, |last| last + 1);
    (least..=params.len()).map(move |count| &params[..count])
}
