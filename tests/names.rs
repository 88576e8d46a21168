//! Names are the field's words: identifiers, flags and JSON keys, against the lists in `tests/names/`.
//!
//! `replaced.txt` has the words that no name may hold. `flags.txt` and `json_keys.txt` have every flag and every key that programs
//! may rely on, so that a change of one is a line in a review.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::visit::{self, Visit};

/// Files whose options are those of other programs, and of `metier ctx`, which is part of the host API.
const NOT_OF_THE_COMMAND: &[(&str, &str)] = &[
    ("src/cases/git_fixture.rs", "git"),
    ("runtimes/external/src/host_api/ctx_command.rs", "metier ctx"),
    ("runtimes/external/src/interpreter/shebang.rs", "launchers of scripts"),
    ("runtimes/external/src/interpreter/version.rs", "interpreters"),
    ("crates/skill/src/contract/sections/dependencies.rs", "programs that skills need"),
];

/// Words that say nothing as a whole name, though they are fine in one.
const NOT_ALONE: &[&str] = &[
    "answered", "asked", "done", "found", "given", "held", "kept", "known", "made", "named", "of", "refused",
    "reported", "seen", "shown", "taken", "the", "wanted",
];

#[test]
fn names_hold_no_replaced_word() {
    let mut wrong = Vec::new();
    let Names { identifiers, parts, keys, .. } = Names::in_sources();
    for name in identifiers.into_iter().chain(parts).chain(keys).chain(flags()) {
        let words = words_of(&name);
        for (old, new) in replaced_words() {
            if words.windows(old.len()).any(|pair| pair == old) {
                wrong.push(format!("{name}: say {new} instead of {}", old.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_function_or_type_is_a_participle_alone() {
    let wrong: Vec<_> = Names::in_sources()
        .identifiers
        .into_iter()
        .filter(|name| NOT_ALONE.contains(&name.as_str()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn flags_are_the_listed_ones() {
    compare("flags.txt", &flags());
}

#[test]
fn json_keys_are_the_listed_ones() {
    compare("json_keys.txt", &json_keys());
}

#[test]
fn no_text_of_the_library_names_an_option_of_the_command() {
    let (options, commands) = (flags(), command_names());
    let mut wrong = Vec::new();
    for (path, file) in parsed_sources().into_iter().filter(|(path, _)| !path.starts_with("src/cli")) {
        let mut literals = Literals::default();
        literals.visit_file(&file);
        let is_own = NOT_OF_THE_COMMAND.iter().any(|(own, _)| path == Path::new(own));
        let named = literals.0.into_iter().filter(|text| !is_own && names_command(text, &options, &commands));
        wrong.extend(named.map(|text| format!("{}: {text:?}", path.display())));
    }
    assert!(wrong.is_empty(), "say it without an option, and add a `Hint`: {wrong:#?}");
}

/// Whether a text names an option of the command, or the command with a command of it. `metier ctx` is what shell scripts call in
/// every program.
fn names_command(text: &str, options: &BTreeSet<String>, commands: &[String]) -> bool {
    let is_mark = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    let begins_with_command = |rest: &str| {
        let word = rest.split(is_mark).next().unwrap_or_default();
        word != "ctx" && commands.iter().any(|name| name == word)
    };
    text.split(is_mark).any(|word| options.contains(word))
        || text.split("metier ").skip(1).any(begins_with_command)
}

#[test]
fn an_option_of_the_command_is_found_in_a_text() {
    let (options, commands) = (flags(), command_names());
    let names = |text: &str| names_command(text, &options, &commands);
    for text in
        ["run with --allow write", "(--timeout)", "--sandbox=off", "`metier show x`", "see metier doctor."]
    {
        assert!(names(text), "{text}");
    }
    for text in
        ["deno run --allow-all", "---", "metier reads it", "`metier ctx`", "grant write", "no--timeout"]
    {
        assert!(!names(text), "{text}");
    }
}

/// The texts of a file outside of its documentation and its tests.
#[derive(Default)]
struct Literals(Vec<String>);

impl<'ast> Visit<'ast> for Literals {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
    }
}

impl Literals {
    fn add_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => {
                    self.0
                        .extend(syn::parse_str::<syn::LitStr>(&literal.to_string()).map(|text| text.value()));
                }
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                _ => {}
            }
        }
    }
}

fn compare(list: &str, found: &BTreeSet<String>) {
    let text = std::fs::read_to_string(folder().join(list)).unwrap();
    let listed: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(new.is_empty() && gone.is_empty(), "tests/names/{list}: new {new:#?}, no longer there {gone:#?}");
}

fn replaced_words() -> Vec<(Vec<String>, String)> {
    let text = std::fs::read_to_string(folder().join("replaced.txt")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(" -> "));
    lines.map(|(old, new)| (old.split(' ').map(str::to_owned).collect(), new.to_owned())).collect()
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/names")
}

/// `OldName`, `old_name` and `--old-name` as `old`, `name`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lowercase = false;
    for letter in name.chars() {
        let is_break = !letter.is_alphanumeric() || (letter.is_uppercase() && after_lowercase);
        if is_break {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
        after_lowercase = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The help of the command, or of a command of it.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_metier")).args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn command_names() -> Vec<String> {
    let commands = commands_in(&help(&[]));
    assert!(commands.len() > 8, "{commands:?}");
    commands
}

/// The commands that a help lists.
fn commands_in(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every `--flag` in the help of the command and of its subcommands.
fn flags() -> BTreeSet<String> {
    let mut texts = vec![help(&[])];
    for command in command_names() {
        let text = help(&[&command]);
        texts.extend(commands_in(&text).iter().map(|inner| help(&[&command, inner])));
        texts.push(text);
    }
    let mut flags = BTreeSet::new();
    for text in texts {
        for line in text.lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
            let flag = line.split([' ', ',', '[', '=']).find(|word| word.starts_with("--"));
            flags.extend(flag.map(str::to_owned));
        }
    }
    flags
}

/// The keys of JSON that the project writes or reads: fields and variants for serde, and the keys of `json!`.
fn json_keys() -> BTreeSet<String> {
    Names::in_sources().keys
}

/// Every source file but tests, by its path in the package.
fn parsed_sources() -> Vec<(PathBuf, syn::File)> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for top in ["src", "crates", "runtimes"] {
        for entry in walkdir::WalkDir::new(package.join(top)).into_iter().map(Result::unwrap) {
            let path = entry.path();
            let is_test =
                path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
            if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                let text = std::fs::read_to_string(path).unwrap();
                let file =
                    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                sources.push((path.strip_prefix(package).unwrap().to_owned(), file));
            }
        }
    }
    sources
}

#[derive(Default)]
struct Names {
    /// Modules, types, functions and constants.
    identifiers: BTreeSet<String>,
    /// Public fields, and variants.
    parts: BTreeSet<String>,
    keys: BTreeSet<String>,
    /// Whether what is read speaks in bytes and not in JSON: the processes of a sandbox among each other.
    in_bytes: bool,
}

impl Names {
    fn in_sources() -> Self {
        let mut names = Self::default();
        for (path, file) in parsed_sources() {
            names.identifiers.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
            let is_json_too = ["file_id.rs", "level.rs"].iter().any(|name| path.ends_with(name));
            names.in_bytes = path.starts_with("runtimes/sandbox") && !is_json_too;
            names.visit_file(&file);
        }
        assert!(names.identifiers.len() > 500, "the sources were not found");
        names
    }

    /// The fields or variants of a type, as serde writes them.
    fn add_keys<'a>(
        &mut self,
        of_type: &[syn::Attribute],
        rename_all: &str,
        parts: impl Iterator<Item = (&'a syn::Ident, &'a [syn::Attribute])>,
    ) {
        let derives = of_type.iter().filter(|attribute| attribute.path().is_ident("derive"));
        let is_json = derives.filter_map(|attribute| attribute.meta.require_list().ok()).any(|list| {
            let text = list.tokens.to_string();
            text.contains("Serialize") || text.contains("Deserialize")
        });
        if !is_json || self.in_bytes {
            return;
        }
        let case = serde_value(of_type, rename_all);
        for (name, attributes) in parts {
            if has_serde_word(attributes, "skip") || has_serde_word(attributes, "flatten") {
                continue;
            }
            let key = serde_value(attributes, "rename")
                .unwrap_or_else(|| in_case(&name.to_string(), case.as_deref()));
            self.keys.insert(key);
        }
    }

    /// Each string before a colon in the text of a `json!`.
    fn add_json_macro(&mut self, tokens: TokenStream) {
        let mut before: Option<String> = None;
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => {
                    before =
                        syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value());
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => self.keys.extend(before.take()),
                TokenTree::Group(group) => {
                    before = None;
                    self.add_json_macro(group.stream());
                }
                _ => before = None,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (name, attributes) = match item {
            syn::Item::Const(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Enum(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            syn::Item::Mod(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Static(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Struct(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Trait(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Type(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Impl(item) => (None, &item.attrs),
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_for_tests) {
            self.identifiers.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if matches!(field.vis, syn::Visibility::Public(_)) {
            self.parts.extend(field.ident.as_ref().map(ToString::to_string));
        }
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.parts.insert(variant.ident.to_string());
        visit::visit_variant(self, variant);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.identifiers.insert(function.sig.ident.to_string());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.identifiers.insert(function.sig.ident.to_string());
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add_keys(
            &item.attrs,
            "rename_all",
            item.fields.iter().filter_map(|field| Some((field.ident.as_ref()?, &field.attrs[..]))),
        );
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add_keys(
            &item.attrs,
            "rename_all",
            item.variants.iter().map(|variant| (&variant.ident, &variant.attrs[..])),
        );
        for variant in &item.variants {
            let named =
                variant.fields.iter().filter_map(|field| Some((field.ident.as_ref()?, &field.attrs[..])));
            self.add_keys(&item.attrs, "rename_all_fields", named);
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.segments.last().is_some_and(|name| name.ident == "json") {
            self.add_json_macro(call.tokens.clone());
        }
    }
}

/// The value of `#[serde(name = "value")]`.
fn serde_value(attributes: &[syn::Attribute], name: &str) -> Option<String> {
    serde_parts(attributes).into_iter().find_map(|part| match part {
        syn::Meta::NameValue(pair) if pair.path.is_ident(name) => match pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

fn has_serde_word(attributes: &[syn::Attribute], word: &str) -> bool {
    serde_parts(attributes).iter().any(|part| matches!(part, syn::Meta::Path(path) if path.is_ident(word)))
}

fn serde_parts(attributes: &[syn::Attribute]) -> Vec<syn::Meta> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let parser = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let parts =
        lists.filter_map(|attribute| parser.parse2(attribute.meta.require_list().ok()?.tokens.clone()).ok());
    parts.flatten().collect()
}

fn in_case(name: &str, case: Option<&str>) -> String {
    let separator = match case {
        Some("snake_case") => "_",
        Some("kebab-case") => "-",
        Some("lowercase") => "",
        _ => return name.to_owned(),
    };
    words_of(name).join(separator)
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
}

#[test]
fn a_name_is_split_into_its_words() {
    assert_eq!(words_of("HostFunction"), ["host", "function"]);
    assert_eq!(words_of("--for-model"), ["for", "model"]);
    assert_eq!(words_of("MAX_LINES"), ["max", "lines"]);
}
