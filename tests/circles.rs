//! Inside each folder, files do not import each other in circles.
//!
//! Read from the syntax of each file: what `use` lines and paths name, without tests, and through re-exports to the file that
//! defines it. A folder inside a folder counts as one file there; `x.rs` beside a folder `x` is the file `mod` of that folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

#[test]
fn files_of_a_folder_do_not_import_each_other_in_circles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let members = ["crates", "runtimes"].map(|folder| std::fs::read_dir(workspace.join(folder)).unwrap());
    let members = members.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for package in members.chain([workspace.to_owned()]) {
        let tree = Tree::read(&package);
        count += tree.files.len();
        let circles = tree.circles();
        assert!(circles.is_empty(), "{}: {circles:#?}", package.display());
    }
    assert!(count > 500, "the sources were not found");
}

#[test]
fn a_circle_is_found_through_groups_re_exports_and_inline_modules() {
    let tree = Tree::parse(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::{b::{self, Thing as Other}, c};"),
        ("src/b.rs", "pub struct Thing; fn f() -> crate::c::Word { loop {} }"),
        ("src/c/mod.rs", "mod d; mod e; pub use d::Word;"),
        ("src/c/d.rs", "pub struct Word; mod inner { fn f(_: super::super::e::Deep) {} }"),
        ("src/c/e.rs", "use super::Word; #[cfg(test)] mod tests { use crate::a; }"),
    ]);
    let circles = tree.circles();
    assert_eq!(circles, ["src/c: d -> e", "src/c: e -> d"]);
}

#[test]
fn a_circle_is_found_between_a_file_and_the_folder_of_its_name() {
    let tree = Tree::parse(&[
        ("src/lib.rs", "mod a;"),
        ("src/a.rs", "mod b; pub use b::Word; pub struct Thing; fn f() -> Word { loop {} }"),
        ("src/a/b.rs", "pub struct Word(super::Thing);"),
    ]);
    assert_eq!(tree.circles(), ["src/a: b -> mod", "src/a: mod -> b"]);
}

/// The sources by their module paths, and what each names.
struct Tree {
    files: BTreeMap<Vec<String>, File>,
}

struct File {
    folder: PathBuf,
    /// Its name in its folder: `mod` for the file that declares the others.
    name: String,
    /// The absolute module paths that it names.
    names: Vec<Vec<String>>,
    /// What it imports, by the name it has here.
    imports: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn read(package: &Path) -> Self {
        let mut sources = Vec::new();
        for entry in walkdir::WalkDir::new(package.join("src")).into_iter().map(Result::unwrap) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(package).unwrap().to_str().unwrap().to_owned();
                sources.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
        let sources: Vec<(&str, &str)> = sources.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        Self::parse(&sources)
    }

    fn parse(sources: &[(&str, &str)]) -> Self {
        let mut files = BTreeMap::new();
        for (path, text) in sources {
            let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs");
            if is_test || *path == "src/main.rs" {
                continue;
            }
            let module = module_path(path);
            let mut reader = Reader { module: module.clone(), ..Reader::default() };
            reader.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}")));
            // `x.rs` declares what lies in `x`, as `x/mod.rs` would.
            let below = path.strip_suffix(".rs").unwrap();
            let declares = sources.iter().any(|(other, _)| other.starts_with(&format!("{below}/")));
            let path = Path::new(path);
            let (folder, name) = match path.file_stem().unwrap().to_str().unwrap() {
                "lib" => (path.parent().unwrap().to_owned(), "mod"),
                _ if declares => (PathBuf::from(below), "mod"),
                name => (path.parent().unwrap().to_owned(), name),
            };
            let file = File { folder, name: name.to_owned(), names: reader.names, imports: reader.imports };
            files.insert(module, file);
        }
        Self { files }
    }

    /// The file that defines what a path names.
    fn definition<'a>(&'a self, path: &[String], depth: usize) -> Option<&'a File> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let file = &self.files[&path[..length]];
        let import = path.get(length).and_then(|name| file.imports.get(name));
        match import {
            Some(import) if depth < 8 => {
                let further: Vec<String> = import.iter().chain(&path[length + 1..]).cloned().collect();
                self.definition(&further, depth + 1)
            }
            _ => Some(file),
        }
    }

    /// The imports of each circle, sorted: `folder: from -> to`.
    fn circles(&self) -> Vec<String> {
        let mut edges: BTreeMap<&Path, BTreeSet<(String, String)>> = BTreeMap::new();
        for file in self.files.values() {
            for target in file.names.iter().filter_map(|path| self.definition(path, 0)) {
                for folder in file.folder.ancestors().filter(|folder| folder.components().count() > 0) {
                    if let (Some(from), Some(to)) = (file.name_in(folder), target.name_in(folder)) {
                        if from != to {
                            edges.entry(folder).or_default().insert((from, to));
                        }
                        break;
                    }
                }
            }
        }
        edges.into_iter().flat_map(|(folder, edges)| circles_of(folder, &edges)).collect()
    }
}

impl File {
    /// How the file counts in a folder at or above its own.
    fn name_in(&self, folder: &Path) -> Option<String> {
        let below = self.folder.strip_prefix(folder).ok()?;
        let first = below.components().next();
        Some(first.map_or_else(|| self.name.clone(), |part| part.as_os_str().to_str().unwrap().to_owned()))
    }
}

/// The edges between files that reach each other.
fn circles_of(folder: &Path, edges: &BTreeSet<(String, String)>) -> Vec<String> {
    let reaches = |from: &str, wanted: &str| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(at) = waiting.pop() {
            for (_, to) in edges.iter().filter(|(start, _)| start == at) {
                if seen.insert(to.as_str()) {
                    waiting.push(to);
                }
            }
        }
        seen.contains(wanted)
    };
    let in_circles = edges.iter().filter(|(from, to)| reaches(to, from));
    in_circles.map(|(from, to)| format!("{}: {from} -> {to}", folder.display())).collect()
}

fn module_path(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap();
    let path = path.strip_prefix("src/").unwrap_or(path);
    let parts = path.split('/').filter(|part| !matches!(*part, "mod" | "lib"));
    parts.map(str::to_owned).collect()
}

/// Collects what one file names, outside of its tests.
#[derive(Default)]
struct Reader {
    /// The module that is read: the file's, or one written inside it.
    module: Vec<String>,
    /// How many modules deep inside the file.
    depth: usize,
    names: Vec<Vec<String>>,
    imports: BTreeMap<String, Vec<String>>,
    children: BTreeSet<String>,
}

impl Reader {
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let first = segments.first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            child if self.children.contains(child) => [&self.module[..], &[child.to_owned()]].concat(),
            _ => return None,
        };
        for segment in &segments[usize::from(first != "super")..] {
            if segment == "super" {
                base.pop();
            } else if segment != "self" {
                base.push(segment.clone());
            }
        }
        Some(base)
    }

    fn read_use(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.read_use(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, before);
                }
            }
            syn::UseTree::Name(name) => self.import(before, &name.ident.to_string(), None),
            syn::UseTree::Rename(rename) => {
                self.import(before, &rename.ident.to_string(), Some(rename.rename.to_string()));
            }
            syn::UseTree::Glob(_) => self.import(before, "self", None),
        }
    }

    fn import(&mut self, before: &[String], name: &str, rename: Option<String>) {
        let segments = [before, &[name.to_owned()]].concat();
        let Some(path) = self.resolve(&segments) else { return };
        if let Some(known) = rename.or_else(|| path.last().cloned()).filter(|_| self.depth == 0) {
            self.imports.insert(known, path.clone());
        }
        self.names.push(path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_file(&mut self, file: &'ast syn::File) {
        self.children = file.items.iter().filter_map(declared).collect();
        visit::visit_file(self, file);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes(item).iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() {
            self.module.push(module.ident.to_string());
            self.depth += 1;
            visit::visit_item_mod(self, module);
            self.depth -= 1;
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A re-export alone is no use of its own: who names it is led on to the definition.
        let known = self.names.len();
        self.read_use(&item.tree, &mut Vec::new());
        if !matches!(item.vis, syn::Visibility::Inherited) {
            self.names.truncate(known);
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let resolved = self.resolve(&segments).filter(|_| segments.len() > 1);
        if let Some(path) = resolved.or_else(|| self.imports.get(&segments[0]).cloned()) {
            self.names.push(path);
        }
        visit::visit_path(self, path);
    }
}

fn declared(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
}
