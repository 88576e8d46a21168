//! What scripts that were written for Synwire find besides `ctx`: the input as `args`, and functions that need no `ctx`.

use std::borrow::Cow;

use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::executor::{RuntimeId, Script, ScriptDialect, ScriptEntry};

/// Stands on the first line, so that every line keeps its number.
const LUA_ALIASES: &str =
    "local args, read_file, list_dir, tool = input, ctx.read_file, ctx.list_dir, ctx.tool; ";
/// A function of the script comes before an alias of its name: Rhai refuses a second one. An alias calls the host by another name,
/// because a call on an object finds functions of the script, too.
const RHAI_ALIASES: [(&str, &str); 3] = [
    ("read_file", "fn read_file(path) { ctx.vfs_read_file(path) } "),
    ("list_dir", "fn list_dir(path) { ctx.vfs_list_dir(path) } "),
    ("tool", "fn tool(name, arguments) { ctx.host_tool(name, arguments) } "),
];

/// The script with the aliases that its dialect has.
pub(super) fn with_aliases(runtime: RuntimeId, script: &Script) -> Cow<'_, Script> {
    if ScriptEntry::from_script(script).dialect != ScriptDialect::Synwire {
        return Cow::Borrowed(script);
    }
    let aliases = match runtime {
        RuntimeId::LUA => LUA_ALIASES.to_owned(),
        RuntimeId::RHAI => rhai_aliases(&String::from_utf8_lossy(&script.source)),
        _ => return Cow::Borrowed(script),
    };
    let source = [aliases.as_bytes(), bytes_without_mark(&script.source)].concat();
    let mut script = script.clone();
    script.source = source.into();
    Cow::Owned(script)
}

fn rhai_aliases(source: &str) -> String {
    let words: Vec<&str> = source.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let defines = |name: &str| {
        let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| pair == ["fn", name])
    };
    let aliases = RHAI_ALIASES.into_iter().filter(|(name, _)| !defines(name)).map(|(_, alias)| alias);
    format!("{}let args = input; ", aliases.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_the_script_has_no_alias() {
        let own = rhai_aliases("private fn\n  read_file (path) { 1 }");
        assert!(!own.contains("fn read_file") && own.contains("fn list_dir"), "{own}");
        assert!(rhai_aliases("let fns = read_file(\"a\");").contains("fn read_file"));
    }

    #[test]
    fn scripts_of_metier_are_as_they_were() {
        let script = Script::new("x", "scripts/main.lua", "return 1".as_bytes().to_vec());
        assert!(matches!(with_aliases(RuntimeId::LUA, &script), Cow::Borrowed(_)));
    }
}
