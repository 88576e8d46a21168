//! A grant whose path is a link, or leads through one, to what only a grant that names it opens.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use metier::config::Configuration;
use metier::engine::Outcome;
use metier::error::ErrorKind;
use serde_json::json;

use super::case;
use super::protected::own_skills;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::Fixture;

pub const CASES: &[Case] = &[
    case("R1", "a link to what is protected", linked),
    case("R2", "a link through a link", linked_twice),
    case("R3", "a link in the middle of a granted path", linked_in_the_middle),
    case("R4", "a link in a folder, and an absolute one", linked_below),
    case("R5", "a link that appears between two runs", linked_between_runs),
    case("R6", "a second name of a protected file", second_name),
    case("R7", "a protected path that a grant names, and a link to an ordinary folder", named),
    case("R8", "a protected name that leads to another protected place", named_by_another),
    case("R9", "what is created behind a link", created),
    case("R10", "a grant that the skill does not request", not_requested),
    case("R11", "a link to what the configuration denies", denied),
    case("R12", "a link, for a script of another language that asks the host", asked_of_the_host),
    case("R13", "what a protected name leads to", leading_name),
    case("R14", "a link to the whole project", whole_project),
];

/// Folders and files that a plain grant does not open.
const TARGETS: [&str; 38] = [
    ".git",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/info",
    ".metier",
    ".metier/skills",
    ".metier/skills/y",
    ".metier/skills/y/SKILL.md",
    ".metier/skills/y/scripts",
    ".metier/config.toml",
    ".vscode",
    ".vscode/sub",
    ".claude/commands",
    ".husky/_",
    ".cursor/rules",
    ".devcontainer/d",
    ".idea/w",
    ".githooks/x",
    ".gemini/c",
    ".zed/t",
    ".codex/a",
    ".config/nvim/lua",
    ".envrc",
    ".env",
    ".ssh",
    ".ssh/keys",
    "deep/in/.env",
    "nested/.git/hooks",
    "node_modules/p/.git/hooks",
    "bare",
    "bare/hooks",
    "bare/hooks/post-receive",
    "meta/hooks",
    "shared/hooks",
    "tools/checks",
    "tools/checks/deep",
    "keys/sub",
];

/// A project with all of them, and ordinary folders.
fn project() -> Fixture {
    let fixture = Fixture::bash(
        "for out; do { echo x > \"$out/new\"; echo x >> \"$out/own\"; echo x >> \"$out\"; }; done 2>/dev/null; true",
    );
    for file in [
        ".git/hooks/pre-commit",
        ".git/info/exclude",
        ".metier/skills/y/SKILL.md",
        ".metier/skills/y/scripts/own",
        ".metier/config.toml",
        ".vscode/sub/own",
        ".claude/commands/own",
        ".husky/_/own",
        ".cursor/rules/own",
        ".devcontainer/d/own",
        ".idea/w/own",
        ".githooks/x/own",
        ".gemini/c/own",
        ".zed/t/own",
        ".codex/a/own",
        ".config/nvim/lua/own",
        ".envrc",
        ".env",
        ".ssh/keys/own",
        "deep/in/.env",
        "nested/.git/hooks/own",
        "node_modules/p/.git/hooks/own",
        "bare/HEAD",
        "bare/objects/own",
        "bare/refs/own",
        "bare/hooks/post-receive",
        "meta/hooks/own",
        "shared/hooks/own",
        "tools/checks/deep/own",
        "keys/sub/own",
        "src/deep/own",
        "a/own",
    ] {
        fixture.write(&format!("project/{file}"), "theirs\n");
    }
    fixture.write("project/.git/config", "[core]\n\thooksPath = tools/checks\n");
    fixture.write("project/tree/.git", "gitdir: ../meta\n");
    fixture.write("project/meta/commondir", "../shared\n");
    fixture.link("keys", "project/.aws")
}

/// The text of every file and the target of every link in the project, by their paths.
fn content(fixture: &Fixture) -> BTreeMap<PathBuf, String> {
    let (mut folders, mut content) = (vec![fixture.at("project")], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let about = path.symlink_metadata().unwrap();
            if about.is_dir() {
                folders.push(path);
            } else if about.is_symlink() {
                let target = fs::read_link(&path).unwrap().display().to_string();
                content.insert(path, target);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                content.insert(path, text);
            }
        }
    }
    content
}

fn run(fixture: &Fixture, grants: &[&str]) -> Outcome {
    let engine = fixture.builder().roots(own_skills(fixture)).build().unwrap();
    let granted = grants
        .iter()
        .fold(fixture.invocation().args(grants.iter().map(|grant| path(grant))), |invocation, grant| {
            invocation.grant(grant.parse().unwrap())
        });
    engine.run(granted)
}

fn path(grant: &str) -> &str {
    grant.split_once(':').map_or(".", |(_, path)| path)
}

/// The run is refused before its script starts, with the grant that would open the target, and nothing has changed.
#[track_caller]
fn assert_refused(fixture: &Fixture, grant: &str, target: &str) {
    let before = content(fixture);
    let outcome = run(fixture, &[grant]);
    assert_eq!(content(fixture), before, "{grant} to {target}: {outcome:?}");
    let Err(error) = &outcome.result else { panic!("{grant} to {target} ran") };
    assert_eq!(error.kind(), ErrorKind::Denied, "{grant} to {target}: {error}");
    assert!(
        error.message().contains(grant) && error.message().contains(target),
        "{grant} to {target}: {error}"
    );
    let help = error.help().unwrap_or_default();
    assert!(help.contains(&format!("write:{target}")), "{grant} to {target}: {help}");
    assert!(outcome.process.is_none(), "{grant} to {target}: {outcome:?}");
}

fn each_target(lay_out: fn(&Fixture, &str), grant: fn(&str) -> String) -> CaseResult {
    for target in TARGETS {
        let fixture = project();
        lay_out(&fixture, target);
        assert_refused(&fixture, &grant(target), target);
    }
    Ok(())
}

fn link(fixture: &Fixture, target: impl AsRef<Path>, at: &str) {
    symlink(target, fixture.at("project").join(at)).unwrap();
}

fn linked() -> CaseResult {
    each_target(|fixture, target| link(fixture, target, "out"), |_| "write:out".into())
}

fn linked_twice() -> CaseResult {
    each_target(
        |fixture, target| {
            link(fixture, Path::new("..").join(target), "a/first");
            link(fixture, "a/first", "out");
        },
        |_| "write:out".into(),
    )
}

/// `write:out/hooks` where `out` leads to `.git`.
fn linked_in_the_middle() -> CaseResult {
    for target in TARGETS.into_iter().filter(|target| target.contains('/')) {
        let fixture = project();
        let (first, rest) = target.split_once('/').unwrap();
        link(&fixture, first, "out");
        assert_refused(&fixture, &format!("write:out/{rest}"), target);
    }
    Ok(())
}

fn linked_below() -> CaseResult {
    each_target(
        |fixture, target| link(fixture, Path::new("..").join(target), "a/out"),
        |_| "write:a/out".into(),
    )?;
    each_target(
        |fixture, target| link(fixture, fixture.at("project").join(target), "out"),
        |_| "write:out".into(),
    )
}

fn linked_between_runs() -> CaseResult {
    for target in [".git/hooks", ".vscode/sub", "bare/hooks", "meta/hooks"] {
        let fixture = project().file("project/out/own", "");
        assert!(run(&fixture, &["write:out"]).result.is_ok());
        assert!(fixture.at("project/out/new").exists());
        fs::rename(fixture.at("project/out"), fixture.at("project/before")).unwrap();
        link(&fixture, target, "out");
        assert_refused(&fixture, "write:out", target);
        // With another grant beside it, too.
        assert!(run(&fixture, &["write", "write:out"]).result.is_err());
    }
    Ok(())
}

/// A file is protected by all of its names.
fn second_name() -> CaseResult {
    for target in [
        ".git/hooks/pre-commit",
        ".git/config",
        ".envrc",
        ".env",
        ".metier/skills/y/SKILL.md",
        "bare/hooks/post-receive",
    ] {
        let fixture = project();
        fs::hard_link(fixture.at("project").join(target), fixture.at("project/out")).unwrap();
        assert_refused(&fixture, "write:out", target);
        // In a granted folder it stays as it is, and the rest of the folder opens.
        let fixture = project();
        fs::hard_link(fixture.at("project").join(target), fixture.at("project/a/again")).unwrap();
        let outcome = run(&fixture, &["write:a", "write:a/again"]);
        assert!(outcome.result.is_err(), "{target}: {outcome:?}");
        let before = fs::read(fixture.at("project").join(target)).unwrap();
        let outcome = run(&fixture, &["write:a"]);
        assert!(outcome.result.is_ok() && fixture.at("project/a/new").exists(), "{target}: {outcome:?}");
        assert_eq!(fs::read(fixture.at("project").join(target)).unwrap(), before, "{target}");
    }
    Ok(())
}

fn named() -> CaseResult {
    let is_written = |fixture: &Fixture, grants: &[&str], at: &str| {
        let outcome = run(fixture, grants);
        let text = fs::read_to_string(fixture.at("project").join(at)).unwrap_or_default();
        assert!(outcome.result.is_ok() && text.ends_with("x\n"), "{grants:?}: {text} {outcome:?}");
    };
    // A secret folder that a grant opens in part stays hidden as a whole where it has its name by a link.
    for target in TARGETS.into_iter().filter(|target| *target != "keys/sub").chain(["keys"]) {
        let fixture = project();
        let is_folder = fixture.at("project").join(target).is_dir();
        let at = if is_folder { format!("{target}/new") } else { target.to_owned() };
        is_written(&fixture, &[&format!("write:{target}")], &at);
        // Who names it may use a link that leads there as well.
        let fixture = project();
        link(&fixture, target, "out");
        is_written(&fixture, &["write:out", &format!("write:{target}")], &at);
    }
    for (target, at) in
        [("src", "src/new"), ("src/deep", "src/deep/new"), ("src/deep/own", "src/deep/own"), ("a", "a/new")]
    {
        let fixture = project();
        link(&fixture, target, "out");
        link(&fixture, "out", "again");
        is_written(&fixture, &["write:again"], at);
    }
    // A link to a folder around what is protected opens the rest of it.
    let fixture = project();
    link(&fixture, "nested", "out");
    is_written(&fixture, &["write:out"], "nested/new");
    let fixture = project();
    fs::remove_file(fixture.at("project/tree/.git")).unwrap();
    link(&fixture, "../meta", "tree/.git");
    is_written(&fixture, &["write:tree/.git/hooks"], "meta/hooks/new");
    is_written(&fixture, &["write:tree/.git"], "meta/new");
    Ok(())
}

/// Who wrote one protected name did not write the other.
fn named_by_another() -> CaseResult {
    for (name, target) in [
        (".husky", ".git/hooks"),
        (".vscode/tasks", ".git/hooks"),
        (".git/hooks/more", ".vscode/sub"),
        (".env.local", ".git/hooks/pre-commit"),
        (".claude/skills", ".metier/skills/y"),
        (".kube", "bare/hooks"),
    ] {
        let fixture = project();
        fs::remove_dir_all(fixture.at("project").join(name)).ok();
        link(&fixture, fixture.at("project").join(target), name);
        assert_refused(&fixture, &format!("write:{name}"), target);
    }
    Ok(())
}

fn created() -> CaseResult {
    // The folder of the grant would be made behind the link.
    for (target, at) in [(".git", "out/new"), (".vscode", "out/new"), (".metier/skills", "out/z")] {
        let fixture = project();
        link(&fixture, target, "out");
        let last = at.rsplit('/').next().unwrap();
        assert_refused(&fixture, &format!("write:{at}"), &format!("{target}/{last}"));
    }
    // What a script makes in an ordinary folder behind a link is reported as if it were granted by its own name.
    let fixture =
        Fixture::bash("mkdir -p out/.git out/.idea; echo x > out/.envrc").file("project/src/own", "");
    link(&fixture, "src", "out");
    let ran = fixture.grant("write:out").run();
    for made in ["src/.git", "src/.idea", "src/.envrc"] {
        assert!(ran.assert_ok().has_warning(&format!("{made} came while")), "{made}: {ran:?}");
    }
    Ok(())
}

/// What a person grants and the skill does not request opens nothing, also below what is protected.
fn not_requested() -> CaseResult {
    for grant in
        ["write:.git/hooks", "write:.git", "write:bare/hooks", "write:meta/hooks", "write:.metier/skills/y"]
    {
        let fixture = project()
            .file("skills/x/SKILL.md", "---\nname: x\ndescription: tries\nallowed-tools: read write\n---\n");
        let before = content(&fixture);
        let outcome = run(&fixture, &[grant]);
        assert_eq!(content(&fixture), before, "{grant}: {outcome:?}");
    }
    Ok(())
}

fn denied() -> CaseResult {
    let fixture = project();
    link(&fixture, "src/deep", "out");
    let configuration = Configuration::new().with("permissions.deny", json!(["write:src"])).unwrap();
    let before = content(&fixture);
    let engine = fixture.builder().configuration(configuration).build().unwrap();
    let outcome = engine.run(fixture.invocation().args(["out"]).grant("write:out".parse().unwrap()));
    assert_eq!(content(&fixture), before, "{outcome:?}");
    assert!(outcome.result.unwrap_err().message().contains("denies write:src"));
    Ok(())
}

fn asked_of_the_host() -> CaseResult {
    if metier::supports(metier::executor::RuntimeId::LUA).is_err() {
        return crate::sandbox::case::SkipReason::unsupported("Lua is not built in");
    }
    let fixture = project();
    fixture.write("skills/lua/SKILL.md", "---\nname: lua\ndescription: tries\n---\n");
    fixture.write(
        "skills/lua/scripts/main.lua",
        "local done = {}
        for _, path in ipairs(input) do
            for _, call in ipairs({{'write', path .. '/new', 'x'}, {'append', path, 'x'}, {'append', path .. '/own', 'x'},
                                   {'mkdir', path .. '/folder'}, {'remove', path .. '/own'}}) do
                if pcall(ctx[call[1]], table.unpack(call, 2)) then done[#done + 1] = call[1] .. ' ' .. call[2] end
            end
        end
        return table.concat(done, ', ')",
    );
    let mut invocation = metier::engine::Invocation::new("lua");
    let mut paths = Vec::new();
    for (number, target) in TARGETS.into_iter().enumerate() {
        let (whole, first) = (format!("out{number}"), format!("in{number}"));
        link(&fixture, target, &whole);
        paths.push(whole);
        if let Some((above, rest)) = target.split_once('/') {
            link(&fixture, above, &first);
            paths.push(format!("{first}/{rest}"));
        }
    }
    for path in &paths {
        invocation = invocation.grant(format!("write:{path}").parse().unwrap());
    }
    let before = content(&fixture);
    let engine = fixture.builder().roots(own_skills(&fixture)).build().unwrap();
    let outcome = engine.run(invocation.input(json!(paths)));
    assert_eq!(outcome.result.as_ref().unwrap(), "", "{outcome:?}");
    assert_eq!(content(&fixture), before);
    Ok(())
}

/// Who opens the folder runs what the name leads to, so a grant for the folder around that does not open it.
fn leading_name() -> CaseResult {
    for (name, target) in [
        (".vscode", "src/deep"),
        (".idea", "src/deep"),
        (".envrc", "src/deep/own"),
        (".claude", "src"),
        ("a/.husky", "src/deep"),
        ("a/.vscode", "src"),
        (".cursor", "a"),
        ("deep/.envrc", "a/own"),
        ("src/.gdbinit", "a/own"),
        (".config/fish", "a"),
    ] {
        // A grant that names the target opens it.
        for grant in ["write", "write:src", "write:a"].iter().filter(|grant| path(grant) != target) {
            let fixture = project();
            fs::remove_dir_all(fixture.at("project").join(name)).ok();
            fs::remove_file(fixture.at("project").join(name)).ok();
            link(&fixture, fixture.at("project").join(target), name);
            let at = fixture.at("project").join(target);
            let state = || content(&fixture).into_iter().filter(|(path, _)| path.starts_with(&at)).collect();
            let before: Vec<_> = state();
            let engine = fixture.builder().roots(own_skills(&fixture)).build().unwrap();
            let tried = ["src", "src/deep", "src/deep/own", "a", "a/own"];
            let outcome = engine.run(fixture.invocation().args(tried).grant(grant.parse().unwrap()));
            if outcome.sandbox.as_ref().is_some_and(|sandbox| sandbox.protected_paths) {
                assert_eq!(state(), before, "{name} leads to {target}, {grant}: {outcome:?}");
            }
            assert!(outcome.result.is_ok(), "{outcome:?}");
        }
    }
    Ok(())
}

fn whole_project() -> CaseResult {
    for target in [".", "../project", "src/.."] {
        for grant in ["write:out", "write:out/src", "write:out/.git"] {
            let fixture = project();
            link(&fixture, target, "out");
            let before = content(&fixture);
            let outcome = run(&fixture, &[grant]);
            let Err(error) = &outcome.result else {
                // A path below the link is a path of the project.
                assert_eq!(grant, "write:out/src", "{target}: {outcome:?}");
                continue;
            };
            assert_eq!(error.kind(), ErrorKind::Denied, "{grant} {target}: {error}");
            assert_eq!(content(&fixture), before, "{grant} {target}: {outcome:?}");
        }
    }
    Ok(())
}
