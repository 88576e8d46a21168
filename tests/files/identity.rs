//! What is protected for what it is: the other names of history and of secrets, and what git would take for history.

use std::fs;
use std::os::unix::fs::symlink;

use metier::error::ErrorKind;
use metier::host::{Files, SkillContext};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier_core::host::RunMessages;
use metier_core::policy::PathProtection;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Project(TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self(TempDir::new().unwrap());
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, target: &str, name: &str) {
        symlink(target, self.0.path().join(name)).unwrap();
    }

    fn hard_link(&self, name: &str, other: &str) {
        fs::hard_link(self.0.path().join(name), self.0.path().join(other)).unwrap();
    }

    fn run(&self, allow: &[&str]) -> SkillContext {
        let granted: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
        let protection = PathProtection::new([".metier/skills", "real/skills"]);
        SkillContext::builder("test")
            .project(Files::open(self.0.path()).unwrap())
            .permissions(Permissions::new(RequestedPermissions::Listed(granted.clone()), granted, protection))
            .build()
    }

    fn call(&self, allow: &[&str], name: &str, arguments: &Value) -> Result<Value, ErrorKind> {
        let arguments = arguments.as_array().unwrap().clone();
        self.run(allow).call(name, arguments).map_err(|error| error.kind())
    }

    #[track_caller]
    fn assert_denied(&self, name: &str, arguments: impl Into<Value>) {
        let arguments = arguments.into();
        let allow = ["write", "write:.", "read:."];
        assert_eq!(self.call(&allow[..2], name, &arguments), Err(ErrorKind::Denied), "{name} {arguments}");
    }

    #[track_caller]
    fn assert_allowed(&self, allow: &[&str], name: &str, arguments: impl Into<Value>) {
        let arguments = arguments.into();
        let answer = self.call(allow, name, &arguments);
        assert!(answer.is_ok(), "{name} {arguments}: {answer:?}");
    }

    /// No way in, neither to look nor to change.
    #[track_caller]
    fn assert_protected(&self, file: &str) {
        for look in ["read_file", "stat", "grep"] {
            let arguments = if look == "grep" { json!(["x", file]) } else { json!([file]) };
            self.assert_denied(look, arguments);
        }
        self.assert_denied("head", json!([file, 1]));
        self.assert_denied("tail", json!([file, 1]));
        self.assert_change_denied(file);
    }

    #[track_caller]
    fn assert_change_denied(&self, file: &str) {
        self.assert_denied("write", json!([file, "x"]));
        self.assert_denied("append", json!([file, "x"]));
        self.assert_denied("edit", json!([file, "theirs", "x"]));
        self.assert_denied("remove", json!([file]));
        self.assert_denied("mkdir", json!([format!("{file}-new")]));
        let folder = file.rsplit_once('/').unwrap().0;
        self.assert_denied("remove", json!([folder, {"recursive": true}]));
        self.assert_denied("write", json!([format!("{folder}/deep/er"), "x"]));
    }
}

#[test]
fn history_that_lies_elsewhere_is_history() {
    let project = Project::new(&[
        (".git", "gitdir: meta\n"),
        ("meta/hooks/own", "theirs"),
        ("meta/commondir", "../shared/it\n"),
        ("shared/it/config", "theirs"),
        ("other/plain", "x"),
    ]);
    project.assert_protected("meta/hooks/own");
    project.assert_protected("shared/it/config");
    project.link("meta", "way");
    project.assert_protected("way/hooks/own");
    project.assert_denied("remove", json!(["shared", {"recursive": true}]));
    project.assert_allowed(&["write"], "write", json!(["other/new", "x"]));
    project.assert_allowed(&["write"], "write", json!(["shared/beside", "x"]));
    for named in [["write", "write:meta"], ["write", "write:.git"], ["write", "write:meta/hooks"]] {
        project.assert_allowed(&named, "write", json!(["meta/hooks/own", "theirs"]));
    }
    project.assert_allowed(&["read:meta"], "read_file", json!(["meta/hooks/own"]));
}

#[test]
fn a_link_to_history_protects_where_it_leads() {
    let project = Project::new(&[("realgit/config", "theirs"), ("realgit/hooks/own", "theirs")]);
    project.link("realgit", ".git");
    project.assert_protected("realgit/config");
    project.assert_protected("realgit/hooks/own");
    project.assert_denied("remove", json!([".git"]));
    // A link to the file that leads there.
    let project = Project::new(&[("it", "gitdir: meta\n"), ("meta/hooks/own", "theirs")]);
    project.link("it", ".git");
    project.assert_protected("meta/hooks/own");
    project.assert_denied("write", json!(["it", "gitdir: mine\n"]));
    // One deeper down, on the way to what it leads to.
    let project = Project::new(&[("sub/.git", "gitdir: meta\n"), ("sub/meta/hooks/own", "theirs")]);
    project.assert_protected("sub/meta/hooks/own");
}

#[test]
fn what_git_takes_for_a_repository_is_one_whatever_its_name() {
    let bare = ["HEAD", "refs/heads/main", "objects/x/y", "config", "hooks/own"];
    for folder in ["bare", "deep/down/x.git", "Trees"] {
        let files: Vec<String> = bare.iter().map(|file| format!("{folder}/{file}")).collect();
        let project = Project::new(&files.iter().map(|file| (file.as_str(), "theirs")).collect::<Vec<_>>());
        project.assert_protected(&format!("{folder}/config"));
        project.assert_protected(&format!("{folder}/hooks/own"));
        project.assert_allowed(
            &["write", &format!("write:{folder}")],
            "write",
            json!([format!("{folder}/config"), "x"]),
        );
        let found = project.call(&[], "grep", &json!(["theirs"])).unwrap();
        assert_eq!(found.as_array().map(Vec::len), Some(0), "{found}");
    }
    let project =
        Project::new(&[("trees/one/HEAD", "x"), ("trees/one/commondir", ".."), ("trees/one/own", "theirs")]);
    project.assert_protected("trees/one/own");
}

#[test]
fn nothing_makes_a_folder_a_repository() {
    for (there, last) in [
        (vec!["HEAD", "objects/x"], "refs/x"),
        (vec!["HEAD", "refs/x"], "objects/pack/x"),
        (vec!["objects/x", "refs/x"], "HEAD"),
        (vec!["commondir"], "HEAD"),
        (vec!["HEAD"], "commondir"),
    ] {
        for at in ["", "src/"] {
            let files: Vec<String> = there.iter().map(|file| format!("{at}{file}")).collect();
            let project =
                Project::new(&files.iter().map(|file| (file.as_str(), "theirs")).collect::<Vec<_>>());
            let last = format!("{at}{last}");
            project.assert_denied("write", json!([last, "x"]));
            project.assert_denied("append", json!([last, "x"]));
            project.assert_denied("mkdir", json!([last]));
            project.assert_allowed(&["write"], "write", json!([format!("{at}other"), "x"]));
        }
    }
    let project = Project::new(&[]);
    for (path, is_fine) in [("a/refs/x", true), ("a/objects/x", true), ("a/config", true), ("a/HEAD", false)]
    {
        let made = project.call(&["write"], "write", &json!([path, "ref: refs/heads/main"]));
        assert_eq!(made.is_ok(), is_fine, "{path}: {made:?}");
    }
}

#[test]
fn what_a_configuration_names_is_protected() {
    let project = Project::new(&[
        (
            ".git/config",
            "[core]\n hooksPath = .husky/_\n fsmonitor = tools/watch.sh\n[include]\n path = ../more.cfg\n",
        ),
        ("more.cfg", "[diff \"x\"]\n textconv = \"sh tools/show.sh\"\n"),
        ("tools/show.sh", ""),
        ("tools/watch.sh", ""),
        ("tools/other.sh", ""),
    ]);
    project.assert_denied("remove", json!(["more.cfg"]));
    for kept in [".husky/_/pre-commit", "tools/show.sh", "tools/watch.sh", "more.cfg"] {
        project.assert_denied("write", json!([kept, "x"]));
        project.assert_allowed(&["write", "write:.git", "write:.husky"], "write", json!([kept, "x"]));
    }
    project.assert_allowed(&["write"], "write", json!(["tools/other.sh", "x"]));
    project.assert_allowed(&[], "read_file", json!(["tools/show.sh"]));
}

#[test]
fn a_secret_is_one_by_all_of_its_names() {
    let project = Project::new(&[(".env", "theirs"), ("deep/.ssh/own", "theirs"), ("src/x", "theirs")]);
    project.hard_link(".env", "again");
    project.hard_link("deep/.ssh/own", "src/again");
    project.hard_link("src/x", "src/y");
    for name in ["again", "src/again"] {
        for look in ["read_file", "stat"] {
            project.assert_denied(look, json!([name]));
        }
        project.assert_denied("head", json!([name, 1]));
        project.assert_denied("edit", json!([name, "theirs", "x"]));
    }
    for allow in ["read:again", "read:.env"] {
        project.assert_allowed(&[allow], "read_file", json!(["again"]));
    }
    project.assert_allowed(&[], "read_file", json!(["src/y"]));
    let found = project.call(&[], "grep", &json!(["theirs"])).unwrap();
    let files: Vec<_> = found.as_array().unwrap().iter().map(|row| row["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["src/x", "src/y"], "{found}");
}

#[test]
fn where_nobody_could_look_everywhere_every_file_with_other_names_may_be_a_secret() {
    let project = Project::new(&[("src/x", "theirs"), ("src/z", "theirs")]);
    project.hard_link("src/x", "src/y");
    project.assert_allowed(&[], "read_file", json!(["src/y"]));
    // Deeper than a walk goes.
    project.write(&format!("{}x", "d/".repeat(300)), "x");
    for name in ["src/x", "src/y"] {
        project.assert_denied("read_file", json!([name]));
        project.assert_allowed(&[&format!("read:{name}")], "read_file", json!([name]));
    }
    project.assert_allowed(&[], "read_file", json!(["src/z"]));
}

#[test]
fn where_a_secret_is_a_link_what_it_leads_to_is_the_secret() {
    let project = Project::new(&[("conf/live", "theirs"), ("conf/other", "theirs"), ("keys/own", "theirs")]);
    project.link("conf/live", ".env");
    project.link("keys", ".ssh");
    project.hard_link("conf/live", "conf/again");
    project.hard_link("keys/own", "conf/own");
    for file in ["conf/live", "keys/own"] {
        project.assert_denied("read_file", json!([file]));
        project.assert_denied("write", json!([file, "x"]));
    }
    for file in ["conf/again", "conf/own"] {
        project.assert_denied("read_file", json!([file]));
        project.assert_denied("edit", json!([file, "theirs", "x"]));
    }
    project.assert_allowed(&["read:.env"], "read_file", json!(["conf/live"]));
    project.assert_allowed(&["read:.env"], "read_file", json!(["conf/again"]));
    project.assert_allowed(&["read:conf/own"], "read_file", json!(["conf/own"]));
    project.assert_allowed(&[], "read_file", json!(["conf/other"]));
    let found = project.call(&[], "grep", &json!(["theirs"])).unwrap();
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
}

#[test]
fn a_link_on_the_way_to_skills_stays() {
    let project = Project::new(&[("real/skills/x/SKILL.md", "theirs")]);
    project.link("real", ".metier");
    project.assert_denied("remove", json!([".metier"]));
    project.assert_denied("write", json!([".metier/skills/x/SKILL.md", "x"]));
    project.assert_denied("write", json!(["real/skills/x/SKILL.md", "x"]));
    project.assert_allowed(&["write", "write:.metier/skills"], "remove", json!([".metier"]));
}

#[test]
fn what_runs_when_a_folder_is_opened_takes_a_permission_that_names_it() {
    let project = Project::new(&[("own", "theirs")]);
    for path in [
        ".vscode/tasks.json",
        "sub/.envrc",
        ".cargo/config.toml",
        ".claude/settings.json",
        ".husky/pre-commit",
    ] {
        project.assert_denied("write", json!([path, "x"]));
        project.assert_denied("append", json!([path, "x"]));
        project.assert_allowed(&["write", &format!("write:{path}")], "write", json!([path, "x"]));
    }
    project.assert_denied("mkdir", json!([".VSCode"]));
    let ctx = project.run(&["write"]);
    for path in ["package.json", "sub/conftest.py", ".github/workflows/x.yml", "plain.txt"] {
        ctx.call("write", vec![path.into(), "x".into()]).unwrap();
    }
    let told: Vec<String> = ctx.take_log().into_iter().map(|line| line.message).collect();
    assert!(told.len() == 3 && told[1].starts_with("sub/conftest.py was changed, which runs"), "{told:?}");
}

#[test]
fn what_is_metiers_own_is_shut_whoevers_it_is() {
    let files = [
        "tmp/metier-0/host-0123456789abcdef/metier-x/python/metier.py",
        ".cache/metier/wasm/0123456789abcdef",
        "st/metier/wasm-cache.key",
        "a/b/METIER/wasm/x",
        "deep/metier-4000000000/HOST-0/drafts",
    ];
    let project = Project::new(&files.map(|file| (file, "theirs")));
    project.write("metier/src/wasm/mod.rs", "x");
    project.write("metier-2/notes", "x");
    project.link("tmp/metier-0", "way");
    project.link("st/metier", "state");
    let all = ["read", "write", "read:st/metier/wasm-cache.key", "write:st/metier/wasm-cache.key"];
    let denies = |name: &str, arguments: Value| {
        assert_eq!(project.call(&all, name, &arguments), Err(ErrorKind::Denied), "{name} {arguments}");
    };
    let by_links = ["way/host-0123456789abcdef/metier-x/python/metier.py", "state/wasm-cache.key"];
    for file in files.into_iter().chain(by_links) {
        for name in ["read_file", "stat", "remove"] {
            denies(name, json!([file]));
        }
        denies("head", json!([file, 1]));
        denies("grep", json!(["x", file]));
        denies("write", json!([file, "x"]));
        denies("append", json!([file, "x"]));
        denies("edit", json!([file, "theirs", "x"]));
        let folder = file.rsplit_once('/').unwrap().0;
        denies("write", json!([format!("{folder}/host-1/x"), "x"]));
        if folder != "state" {
            denies("remove", json!([folder, {"recursive": true}]));
        }
    }
    for folder in ["tmp", "st", "a", "deep", ".cache"] {
        denies("remove", json!([folder, {"recursive": true}]));
    }
    // Another host may have it tomorrow.
    denies("mkdir", json!(["new/metier-7/host-0123456789abcdef"]));
    denies("write", json!(["new/metier/wasm/0", "x"]));
    for look in [json!(["theirs"]), json!(["theirs", "tmp"]), json!(["theirs", "**/*"])] {
        let found = project.call(&all, "grep", &look);
        assert!(found.is_err() || !found.unwrap().to_string().contains("theirs"), "{look}");
    }
    project.assert_allowed(&all, "read_file", json!(["metier/src/wasm/mod.rs"]));
    project.assert_allowed(&all, "write", json!(["metier-2/notes", "y"]));
    project.assert_allowed(&all, "write", json!(["metier/notes", "y"]));
}
