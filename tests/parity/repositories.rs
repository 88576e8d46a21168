//! Projects whose git repository lies outside of them: linked worktrees, separate folders, borrowed objects, the repository above.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

const LEVELS: [&str; 2] = ["namespaces", "landlock"];

/// Folders beside one another; metier works in one of them.
struct Stage(Project);

impl Stage {
    /// A repository `main` with a commit `feat: first` and the branch `topic`.
    fn new() -> Self {
        let stage = Self(Project::new());
        fs::create_dir_all(stage.at("main")).unwrap();
        stage.git("main", &["init", "-q", "-b", "trunk"]);
        write(&stage.at("main/x"), "x\n");
        stage.git("main", &["add", "x"]).commit("main", "feat: first");
        stage
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.0.root()).unwrap().join(path)
    }

    /// Runs git as a person does; the test ends where it fails.
    fn git(&self, folder: &str, args: &[&str]) -> &Self {
        let output = git(&self.0, &self.at(folder)).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        self
    }

    fn commit(&self, folder: &str, message: &str) -> &Self {
        self.git(folder, &["commit", "-q", "-m", message])
    }

    fn metier(&self, folder: &str, level: &str, args: &[&str]) -> Answer {
        let mut command = self.0.command(args);
        command.current_dir(self.at(folder)).env("METIER_SANDBOX_LEVEL", level);
        configure(&mut command, &self.0);
        command.output().unwrap().into()
    }

    /// A command of git in the sandbox, with these grants.
    fn sandboxed(&self, folder: &str, level: &str, grants: &[&str], args: &[&str]) -> Answer {
        let grants = grants.iter().flat_map(|grant| ["--allow", grant]);
        let names = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        let all: Vec<&str> = ["exec"]
            .into_iter()
            .chain(grants)
            .chain(["--", "git"])
            .chain(names)
            .chain(args.iter().copied())
            .collect();
        self.metier(folder, level, &all)
    }
}

fn git(project: &Project, folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder);
    configure(&mut command, project);
    command.env("GIT_AUTHOR_NAME", "A").env("GIT_AUTHOR_EMAIL", "a@example.org");
    command.env("GIT_COMMITTER_NAME", "A").env("GIT_COMMITTER_EMAIL", "a@example.org");
    command
}

/// Without what the person who runs the tests has set for git.
fn configure(command: &mut Command, project: &Project) {
    command.env("HOME", project.home()).env_remove("XDG_CONFIG_HOME").env("GIT_CONFIG_NOSYSTEM", "1");
    command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
}

/// What a `.git` of the project `wt` claims, and how it comes to it.
type Forgery = (&'static str, fn(&Stage));
/// What it is, the project, the folder of git, and how they are made.
type Case = (&'static str, &'static str, &'static str, fn(&Stage));

/// Whether this machine has what the tests and the built-in skill run.
fn has_programs() -> bool {
    let missing = ["git", "python3"].into_iter().find(|program| find_program(program).is_none());
    if let Some(program) = missing {
        not_run("repositories", &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// Git commands that read, and what one of them prints.
const READING: [(&[&str], &str); 5] = [
    (&["log", "--oneline"], "feat: first"),
    (&["status", "--short"], ""),
    (&["diff", "HEAD"], ""),
    (&["blame", "x"], "x"),
    (&["rev-parse", "--abbrev-ref", "HEAD"], ""),
];

#[test]
fn a_repository_of_somebody_else_is_read_if_its_user_has_said_that_it_is_safe() {
    if !has_programs() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("repositories of somebody else", "only root can make one");
    }
    for level in LEVELS {
        let stage = Stage::new();
        for path in ["main", "main/.git"] {
            std::os::unix::fs::chown(stage.at(path), Some(12_345), None).unwrap();
        }
        let log = || stage.metier("main", level, &["exec", "--", "git", "log", "--oneline"]);
        assert!(log().stderr.contains("dubious ownership"), "{level}: {:?}", log());
        let own = stage.at("main").display().to_string();
        for (says, is_read) in [("*", true), (own.as_str(), true), ("/elsewhere", false)] {
            write(&stage.0.home().join(".gitconfig"), format!("[safe]\n\tdirectory = {says}\n"));
            assert_eq!(log().stdout.contains("feat: first"), is_read, "{level}, {says}: {:?}", log());
        }
    }
}

#[test]
fn commits_have_the_name_that_the_repository_or_else_its_user_has() {
    if !has_programs() {
        return;
    }
    for level in LEVELS {
        let stage = Stage::new();
        let commit = ["--", "git", "commit", "-q", "--allow-empty", "-m", "second"];
        let commit = |grants: &[&str], variables: &[&str]| {
            let all = [&["exec"], grants, variables, &commit[..]].concat();
            let answer = stage.metier("main", level, &all);
            let mut log = git(&stage.0, &stage.at("main"));
            let author = log.args(["log", "-1", "--format=%an <%ae>"]).output().unwrap().stdout;
            (answer, String::from_utf8(author).unwrap())
        };
        let may_commit = ["--allow", "write", "--allow", "write:.git"];
        assert_ne!(commit(&may_commit, &[]).0.code, 0, "{level}: nobody has a name");
        write(&stage.0.home().join("more"), "[user]\n\temail = user@example.org\n");
        let home =
            "[user]\n\tname = \"The User\"\n[include]\n\tpath = more\n[credential]\n\thelper = store\n";
        write(&stage.0.home().join(".gitconfig"), home);
        // It is read before the other one, and a name of another section is no name.
        let early = "[user]\n\tname = Earlier\n[user \"x\"]\n\temail = x@example.org\n";
        write(&stage.0.home().join(".config/git/config"), early);
        let (answer, author) = commit(&may_commit, &[]);
        assert_eq!(
            (answer.code, author.as_str()),
            (0, "The User <user@example.org>\n"),
            "{level}: {answer:?}"
        );
        stage.git("main", &["config", "user.name", "The Project"]);
        let (answer, author) = commit(&may_commit, &[]);
        assert_eq!(
            (answer.code, author.as_str()),
            (0, "The Project <user@example.org>\n"),
            "{level}: {answer:?}"
        );
        let show = ["exec", "--", "sh", "-c", "env | grep GIT_CONFIG_ | grep -v NOSYSTEM"];
        assert_eq!(stage.metier("main", level, &show).stdout, "", "{level}: a run that cannot commit");
        let given = ["GIT_AUTHOR_NAME=Given", "GIT_AUTHOR_EMAIL=given@example.org"];
        let given: Vec<&str> = given.iter().flat_map(|variable| ["--env", variable]).collect();
        let (answer, author) = commit(&may_commit, &given);
        assert_eq!((answer.code, author.as_str()), (0, "Given <given@example.org>\n"), "{level}: {answer:?}");
    }
}

#[test]
fn a_linked_worktree_is_read_as_a_repository_in_the_project_is() {
    if !has_programs() {
        return;
    }
    for (level, relative) in LEVELS.into_iter().flat_map(|level| [(level, false), (level, true)]) {
        let stage = Stage::new();
        stage.git("main", &["worktree", "add", "-q", "../wt", "-b", "topic"]);
        if relative {
            write(&stage.at("wt/.git"), "gitdir: ../main/.git/worktrees/wt\n");
            write(&stage.at("main/.git/worktrees/wt/gitdir"), "../../../../wt/.git\n");
        }
        for (args, text) in READING {
            let answer = stage.sandboxed("wt", level, &[], args);
            assert!(answer.code == 0 && answer.stdout.contains(text), "{level} {args:?}: {answer:?}");
        }
        let changelog = stage.metier("wt", level, &["run", "changelog"]);
        assert!(changelog.stdout.contains("first"), "{level}: {changelog:?}");
        let notes = stage.metier("wt", level, &["run", "release-notes"]);
        assert!(notes.stdout.contains("first"), "{level}: {notes:?}");
    }
}

#[test]
fn a_commit_in_a_linked_worktree_takes_the_grant_that_a_commit_takes() {
    if !has_programs() {
        return;
    }
    for level in LEVELS {
        let stage = Stage::new();
        stage.git("main", &["worktree", "add", "-q", "../wt", "-b", "topic"]);
        write(&stage.at("wt/x"), "y\n");
        let commit = ["commit", "-q", "-a", "-m", "fix: second"];
        let denied = stage.sandboxed("wt", level, &["write"], &commit);
        assert_ne!(denied.code, 0, "{level}: {denied:?}");
        assert!(denied.stderr.contains("--allow write:.git"), "{level}: {denied:?}");
        let granted = stage.sandboxed("wt", level, &["write", "write:.git"], &commit);
        assert_eq!(granted.code, 0, "{level}: {granted:?}");
        let log = git(&stage.0, &stage.at("wt")).args(["log", "--format=%s"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&log.stdout), "fix: second\nfeat: first\n", "{level}");
        assert_eq!(fs::read_to_string(stage.at("main/x")).unwrap(), "x\n");
    }
}

#[test]
fn a_worktree_that_its_repository_does_not_name_is_for_a_person_to_decide() {
    if !has_programs() {
        return;
    }
    // An archive may say anything in its `.git`, and nothing in a repository of the user.
    let forged: [Forgery; 6] = [
        ("another worktree's folder", |stage| {
            stage.git("main", &["worktree", "add", "-q", "../real", "-b", "topic"]);
            write(&stage.at("wt/.git"), "gitdir: ../main/.git/worktrees/real\n");
        }),
        ("the repository", |stage| write(&stage.at("wt/.git"), "gitdir: ../main/.git\n")),
        ("the whole path", |stage| {
            write(&stage.at("wt/.git"), format!("gitdir: {}\n", stage.at("main/.git").display()));
        }),
        ("a link", |stage| std::os::unix::fs::symlink("../main/.git", stage.at("wt/.git")).unwrap()),
        ("a folder that shares", |stage| {
            write(&stage.at("wt/.git/HEAD"), "ref: refs/heads/trunk\n");
            write(&stage.at("wt/.git/commondir"), "../../main/.git\n");
        }),
        ("a worktree that moved away", |stage| {
            stage.git("main", &["worktree", "add", "-q", "../old", "-b", "topic"]);
            fs::copy(stage.at("old/.git"), stage.at("wt/.git")).unwrap();
        }),
    ];
    for (level, (what, forge)) in LEVELS.into_iter().flat_map(|level| forged.map(|case| (level, case))) {
        let stage = Stage::new();
        fs::create_dir_all(stage.at("wt/.metier")).unwrap();
        forge(&stage);
        let log = ["log", "--oneline"];
        let denied = stage.sandboxed("wt", level, &[], &log);
        assert!(denied.code != 0 && !denied.stdout.contains("feat"), "{level}, {what}: {denied:?}");
        let main = stage.at("main/.git");
        let read = stage.metier("wt", level, &["exec", "--", "cat", main.join("HEAD").to_str().unwrap()]);
        assert_ne!(read.code, 0, "{level}, {what}: {read:?}");
    }
}

#[test]
fn what_has_no_proof_is_named_and_read_with_the_grant() {
    if !has_programs() {
        return;
    }
    let cases: [Case; 7] = [
        ("a separate folder", "own", "main.git", |stage| {
            fs::create_dir(stage.at("own")).unwrap();
            fs::rename(stage.at("main/.git"), stage.at("main.git")).unwrap();
            write(&stage.at("own/.git"), "gitdir: ../main.git\n");
        }),
        ("the repository above", "main/pkg/a", "main/.git", |_| {}),
        ("the worktree above", "wt/pkg/a", "main/.git", |stage| {
            stage.git("main", &["worktree", "add", "-q", "../wt", "-b", "topic"]);
        }),
        ("borrowed objects", "clone", "main/.git/objects", |stage| {
            stage.git(".", &["clone", "-q", "--shared", "main", "clone"]);
        }),
        ("a submodule", "top/sub", "top/.git/modules/sub", |stage| {
            fs::create_dir(stage.at("top")).unwrap();
            stage.git("top", &["init", "-q"]);
            let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../main", "sub"];
            stage.git("top", &add);
        }),
        ("objects that are a link", "main", "store", |stage| {
            fs::rename(stage.at("main/.git/objects"), stage.at("store")).unwrap();
            symlink("../../store", stage.at("main/.git/objects")).unwrap();
        }),
        ("a folder of links to a repository", "new", "main/.git", |stage| {
            fs::create_dir_all(stage.at("new/.git")).unwrap();
            fs::copy(stage.at("main/.git/HEAD"), stage.at("new/.git/HEAD")).unwrap();
            for part in ["config", "refs", "objects", "info", "hooks"] {
                symlink(format!("../../main/.git/{part}"), stage.at("new/.git").join(part)).unwrap();
            }
        }),
    ];
    for (level, (what, folder, repository, make)) in
        LEVELS.into_iter().flat_map(|level| cases.map(|case| (level, case)))
    {
        let stage = Stage::new();
        make(&stage);
        fs::create_dir_all(stage.at(folder).join(".metier")).unwrap();
        let log = ["log", "--format=%s"];
        let grant = format!("git:{}", stage.at(repository).display());
        let denied = stage.sandboxed(folder, level, &[], &log);
        assert_ne!(denied.code, 0, "{level}, {what}: {denied:?}");
        assert!(denied.stderr.contains(&format!("--allow {grant}")), "{level}, {what}: {denied:?}");
        let changelog = stage.metier(folder, level, &["run", "changelog"]);
        assert!(!changelog.stderr.contains("no commits"), "{level}, {what}: {changelog:?}");
        assert!(changelog.stderr.contains(&grant), "{level}, {what}: {changelog:?}");

        let granted = stage.sandboxed(folder, level, &[&grant], &log);
        assert!(granted.stdout.contains("feat: first"), "{level}, {what}: {granted:?}");
        // The second one is a plan that calls the first.
        for skill in ["changelog", "release-notes"] {
            let ran = stage.metier(folder, level, &["run", skill, "--allow", &grant]);
            assert!(ran.stdout.contains("first"), "{level}, {what}: {ran:?}");
        }
        let other = stage.sandboxed(folder, level, &["git:/srv/other.git"], &log);
        assert_ne!(other.code, 0, "{level}, {what}: {other:?}");
    }
}

#[test]
fn a_folder_of_git_that_a_variable_names_is_said_to_be_none_of_a_script() {
    if !has_programs() {
        return;
    }
    let stage = Stage::new();
    fs::create_dir_all(stage.at("plain/.metier")).unwrap();
    let mut command = stage.0.command(&["exec", "--", "git", "log"]);
    command.current_dir(stage.at("plain")).env("GIT_DIR", stage.at("main/.git"));
    let answer = Answer::from(command.output().unwrap());
    assert!(answer.code != 0 && answer.stderr.contains("GIT_DIR is set here"), "{answer:?}");
}

#[test]
fn a_grant_of_git_opens_repositories_and_nothing_else() {
    if !has_programs() {
        return;
    }
    let stage = Stage::new();
    write(&stage.at("keys/id"), "secret");
    write(&stage.at("wt/.git"), "gitdir: ../keys\n");
    fs::create_dir_all(stage.at("wt/.metier")).unwrap();
    let (all, key) = (format!("git:{}", stage.at(".").display()), stage.at("keys/id"));
    for (level, grant) in LEVELS.into_iter().flat_map(|level| [(level, "git"), (level, &*all)]) {
        let read = stage.metier("wt", level, &["exec", "--allow", grant, "--", "cat", key.to_str().unwrap()]);
        assert!(read.code != 0 && !read.stdout.contains("secret"), "{level} {grant}: {read:?}");
    }
}
