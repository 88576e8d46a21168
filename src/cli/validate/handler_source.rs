//! Reads the handler of a Curia skill for secrets and capabilities that its manifest does not declare. Nothing of it is run.
//!
//! This is a search and no parser: it finds `ctx.secret('x')` and `ctx.bus` where they are written like that, outside of comments. What
//! a handler reads by another way, such as a computed name, fails when it runs.

use std::collections::BTreeMap;

use cap_std::fs::Dir;
use metier::skill::Diagnostic;
use metier::skill::contract::Contract;
use metier_skill::formats::CURIA_CAPABILITIES;

use super::skill_file;
use crate::cli::validate::lints;

/// What a handler uses, each with the line of its first use.
#[derive(Default)]
struct HandlerUses {
    secrets: BTreeMap<String, usize>,
    capabilities: BTreeMap<String, usize>,
}

/// Warnings, at the key of the manifest that lacks a name.
pub fn undeclared_uses(contract: &Contract, dir: &Dir, manifest: &str) -> Vec<Diagnostic> {
    let handlers = contract.format.handlers();
    let Some(file) = handlers.iter().find(|file| dir.is_file(file)) else { return Vec::new() };
    let Ok(read) = skill_file::read(dir, file) else { return Vec::new() };
    let uses = HandlerUses::from_source(&String::from_utf8_lossy(&read.bytes));
    let (secrets, capabilities) = (&contract.host_needs.secrets, &contract.host_needs.capabilities);
    let is_secret = |name: &&String| secrets.iter().any(|known| known.eq_ignore_ascii_case(name));
    let of_secrets = uses.secrets.iter().filter(|(name, _)| !is_secret(name));
    let of_capabilities = uses.capabilities.iter().filter(|(name, _)| !capabilities.contains(name));
    let warnings = of_secrets
        .map(|(name, line)| ("secrets", "the secret", name, line))
        .chain(of_capabilities.map(|(name, line)| ("capabilities", "the capability", name, line)));
    let warning = |(key, what, name, line): (&str, &str, &String, &usize)| {
        let quoted = format!("\"{key}\"");
        let span = manifest.find(&quoted).map_or(0..0, |at| at..at + quoted.len());
        let message = format!("{file} uses {what} `{name}` in line {line}, which `{key}` does not list");
        Diagnostic::new(&lints::HANDLER_UNDECLARED, manifest, &span, message)
            .with_help(format!("add \"{name}\" to `{key}`; without it the handler fails there"))
    };
    warnings.map(warning).collect()
}

impl HandlerUses {
    fn from_source(source: &str) -> Self {
        let mut uses = Self::default();
        let code = without_comments(source);
        let (mut line, mut counted) = (1, 0);
        for (at, _) in code.match_indices("ctx") {
            let is_whole = !code[..at].ends_with(|c: char| is_part_of_name(c) || c == '.');
            let rest = code[at + "ctx".len()..].trim_start();
            let Some(rest) = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.')).filter(|_| is_whole)
            else {
                continue;
            };
            let rest = rest.trim_start();
            let name = &rest[..rest.find(|c| !is_part_of_name(c)).unwrap_or(rest.len())];
            line += code[counted..at].matches('\n').count();
            counted = at;
            if name == "secret" {
                if let Some(secret) = literal_argument(&rest[name.len()..]) {
                    uses.secrets.entry(secret.to_owned()).or_insert(line);
                }
            } else if CURIA_CAPABILITIES.contains(&name) {
                uses.capabilities.entry(name.to_owned()).or_insert(line);
            }
        }
        uses
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The most characters of a text in a call.
const MAX_ARGUMENT: usize = 1_000;

/// The text in a call such as `('x')`.
fn literal_argument(call: &str) -> Option<&str> {
    let argument = call.trim_start().strip_prefix('(')?.trim_start();
    let quote = argument.chars().next().filter(|c| ['\'', '"', '`'].contains(c))?;
    // A longer text names nothing.
    let end = argument[1..].char_indices().take(MAX_ARGUMENT).find(|(_, c)| *c == quote)?.0;
    let text = &argument[1..=end];
    (!text.is_empty() && !text.contains(['\n', '$', '\\'])).then_some(text)
}

/// The source with each comment as blanks, so that lines stay where they are. What looks like the end of a URL is not a comment.
fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at);
        code.push_str(before);
        let end = if let Some(comment) = after.strip_prefix("/*") {
            comment.find("*/").map_or(after.len(), |end| end + 4)
        } else if after.starts_with("//") && !code.ends_with(':') {
            after.find('\n').unwrap_or(after.len())
        } else {
            code.push('/');
            rest = &after[1..];
            continue;
        };
        code.extend(after[..end].chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = &after[end..];
    }
    code + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(source: &str) -> (Vec<(String, usize)>, Vec<String>) {
        let HandlerUses { secrets, capabilities } = HandlerUses::from_source(source);
        (secrets.into_iter().collect(), capabilities.into_keys().collect())
    }

    #[test]
    fn literal_uses_are_found_with_their_lines() {
        let source = "// ctx.secret('in_a_comment')\n/* ctx.bus\n */ const a = ctx.secret('a'), b = ctx . secret( \"b\" );\n\
            fetch(`https://x.test/${ctx.secret(`c`)}`); fetch('https://y.test', {key: ctx.secret('d')});\n\
            ctx?.bus.publish(1); ctx.log.info('x'); myctx.secret('no'); this.ctx.secret('no'); ctx.secrets('no');\n\
            ctx.secret(name); ctx.secret(`${name}`); ctx.secret('');\nctx.secret('a'); a / b / ctx.secret('e')";
        let (secrets, capabilities) = uses(source);
        let found: Vec<(&str, usize)> = secrets.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(found, [("a", 3), ("b", 3), ("c", 4), ("d", 4), ("e", 7)]);
        assert_eq!(capabilities, ["bus"]);
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        for source in [
            "",
            "/",
            "//",
            "/*",
            "/* é",
            "ctx",
            "ctx.",
            "ctx.secret(",
            "ctx.secret('é",
            "é/é//é\nctx.secret('é')",
            "/*/ctx.bus",
        ] {
            assert!(uses(source).0.len() <= 1, "{source}");
        }
    }
}
