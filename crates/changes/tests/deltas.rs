//! What the host functions do to a project directly, and by a delta and `apply`, is the same, and answers the same; undo gives the original back.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use metier_changes::{ApplyOptions, PreviewCopy};
use metier_core::host::Files;
use metier_core::host::files::{FilesView, Grep, WalkFilter, WalkOptions};
use metier_core::policy::CancelToken;
use proptest::prelude::*;
use support::overlay::{Action, Overlay};
use support::{Bench, conflicts, refusals, tree};

/// An operation of the host functions.
#[derive(Clone, Debug)]
enum Operation {
    Write(String, String),
    Append(String, String),
    Edit(String),
    MakeFolder(String),
    Remove(String),
    RemoveAll(String),
    Rename(String, String),
    Read(String),
    Stat(String),
    List(String),
    Walk(String),
    Grep(String),
}

impl Operation {
    /// Does it, and answers as a script would read it.
    fn run(&self, view: &FilesView<'_>) -> String {
        let cancel = CancelToken::new();
        let answer = match self {
            Self::Write(path, content) => view.write(path, content.as_bytes()).map(|()| String::new()),
            Self::Append(path, content) => view.append(path, content.as_bytes()).map(|()| String::new()),
            Self::Edit(path) => view.edit_all(path, "content", "edited").map(|count| count.to_string()),
            Self::MakeFolder(path) => view.create_dir(path).map(|()| String::new()),
            Self::Remove(path) => view.remove(path).map(|()| String::new()),
            Self::RemoveAll(path) => view.remove_all(path, &cancel).map(|()| String::new()),
            // Scripts have no other way.
            Self::Rename(from, to) => view.read(from).and_then(|content| {
                view.write(to, &content)?;
                view.remove(from).map(|()| String::new())
            }),
            Self::Read(path) => view.text(path),
            Self::Stat(path) => view.stat(path).map(|stat| {
                let size = if stat.is_dir { 0 } else { stat.size };
                format!("{size} {} {} {} {}", stat.is_dir, stat.is_file, stat.is_symlink, stat.readonly)
            }),
            Self::List(path) => view.list(path).map(|names| names.join(" ")),
            Self::Walk(path) => view.resolve_folder(path).and_then(|folder| {
                let mut found = Vec::new();
                let options = WalkOptions { cancel: &cancel, filter: WalkFilter::SkipNothing, depth: None };
                view.walk(&folder, &options, |entry| {
                    found.push(format!("{entry:?}"));
                    Ok(())
                })?;
                found.sort();
                Ok(found.join("\n"))
            }),
            Self::Grep(path) => Grep::literal("content", false).and_then(|grep| {
                let found = view.grep(path, &grep, WalkFilter::SkipNothing, &cancel)?;
                Ok(format!("{:#?}", found.rows))
            }),
        };
        answer.unwrap_or_else(|error| error.to_string().to_lowercase())
    }
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|parts| parts.join("/"))
}

fn content() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "x", "content\n", "longer content\n"]).prop_map(str::to_owned)
}

/// What the project has before.
fn action() -> impl Strategy<Value = Action> {
    let target = prop::sample::select(vec!["a", "b/c", "../b", "..", "missing"]).prop_map(str::to_owned);
    let mode = prop::sample::select(vec![0o644, 0o600, 0o755, 0o750]);
    prop_oneof![
        5 => (path(), content()).prop_map(|(path, content)| Action::Write(path, content)),
        4 => path().prop_map(Action::MakeFolder),
        1 => path().prop_map(Action::Remove),
        2 => (path(), target).prop_map(|(path, target)| Action::Link(path, target)),
        1 => (path(), mode).prop_map(|(path, mode)| Action::SetMode(path, mode)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (path(), content()).prop_map(|(path, content)| Operation::Write(path, content)),
        3 => (path(), content()).prop_map(|(path, content)| Operation::Append(path, content)),
        1 => path().prop_map(Operation::Edit),
        3 => path().prop_map(Operation::MakeFolder),
        4 => path().prop_map(Operation::Remove),
        3 => path().prop_map(Operation::RemoveAll),
        3 => (path(), path()).prop_map(|(from, to)| Operation::Rename(from, to)),
        1 => path().prop_map(Operation::Read),
        1 => path().prop_map(Operation::Stat),
        1 => path().prop_map(Operation::List),
        1 => path().prop_map(Operation::Walk),
        1 => path().prop_map(Operation::Grep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_have_the_same_effect_directly_and_by_a_delta(
        before in prop::collection::vec(action(), 0..30),
        operations in prop::collection::vec(operation(), 1..40),
    ) {
        let bench = Bench::new(&[]);
        let direct = bench.temp.path().join("direct");
        fs::create_dir(&direct).unwrap();
        for root in [&bench.project, &direct] {
            let plain = Overlay { lower: None, upper: root.clone() };
            for action in &before {
                plain.run(action);
            }
        }
        let original = bench.tree();
        let previews = bench.temp.path().join("previews");
        let (copy, delta) = PreviewCopy::with_delta(&previews, (&bench.project, "test")).unwrap();
        let seen = Files::of_delta(&delta, copy.root()).unwrap();
        let plain = Files::open(&direct).unwrap();
        let everything = ["a", "b", "c"].into_iter().map(str::to_owned);
        let everything = everything.flat_map(|path| [Operation::Walk(path.clone()), Operation::Grep(path)]);
        for operation in operations.iter().cloned().chain(everything).chain([Operation::Walk(String::new())]) {
            let (expected, answer) = (operation.run(&FilesView::unrestricted(&plain)), operation.run(&FilesView::unrestricted(&seen)));
            prop_assert_eq!(answer, expected, "{:?}", operation);
        }
        prop_assert_eq!(&bench.tree(), &original);
        check_round_trip(&bench, &copy, &direct)?;
        prop_assert_eq!(&bench.tree(), &original);
    }
}

/// Applies what the run has changed, and undoes it.
fn check_round_trip(bench: &Bench, copy: &PreviewCopy, direct: &Path) -> Result<(), TestCaseError> {
    let (set, upper) = copy.read().unwrap();
    prop_assert!(set.refused.is_empty(), "{:?}", refusals(&set));
    let stored = bench.store().keep(&set, upper.as_fd()).unwrap();
    let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
    let report = bench.store().apply(&stored.set.id, copy.project(), &options).unwrap();
    prop_assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    prop_assert_eq!(&bench.tree(), &tree(direct));
    if !set.changes.is_empty() {
        let report = bench.undo(&stored.set.id);
        prop_assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    }
    Ok(())
}
