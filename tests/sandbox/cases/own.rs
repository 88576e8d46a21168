//! metier's own folders, which no script sees, wherever they lie.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use metier::engine::Engine;
use metier::error::ErrorKind;
use metier::registry::{Root, Roots, Scope};

use super::case;
use crate::sandbox::case::{Case, CaseResult, LEVEL_VARIABLE, LEVELS, SkipReason};
use crate::sandbox::fixture::{self, Fixture, RunResult};

pub const CASES: &[Case] = &[
    case("O1", "temporary files of metier's that lie in the project, by TMPDIR", in_project),
    case("O2", "the same by a link, and in the skill's folder", by_link),
    case("O3", "metier's cache in the project", cache),
    case("O4", "a project in which the temporary files of all runs lie", around),
    case("O3b", "metier's state, and the whole home, in the project", state),
    case("O5a", "another host's temporary files in this project, which were there before", others_before),
    case("O5b", "the same by a link, and deep down in a folder that is read only", others_deep),
    case("O5c", "another host that begins while a script runs in the project", others_after),
    case("O6a", "another host's state and cache in this project", others_state),
    case("O6b", "the same in a project that can only be read", others_state_read),
    case("O7", "names of metier's own folders, by the host API", by_host_functions),
];

/// The command on the fixture's project with these variables.
fn metier(fixture: &Fixture, variables: &[(&str, &Path)], arguments: &[&str]) -> Result<Output, SkipReason> {
    let program = fixture::helper()
        .ok_or_else(|| SkipReason::Unsupported("the command line is not built in".into()))?;
    let mut command = Command::new(program);
    command.args(["run", "x", "--project"]).arg(fixture.at("project")).args(arguments);
    Ok(command.envs(variables.iter().copied()).output().unwrap())
}

/// The skill of the fixture, once more in its project.
fn add_to_project(fixture: &Fixture, script: &str) {
    fixture.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: looks\n---\n");
    fixture.write("project/.metier/skills/x/scripts/run.bash", script);
}

const LOOK_SCRIPT: &str =
    "echo \"home $HOME\"; find . -name 'host-*' 2>/dev/null; touch \"$HOME/x\" && echo own";

fn host_and_home(said: &Output) -> (bool, bool) {
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{out} {}", String::from_utf8_lossy(&said.stderr));
    (out.lines().any(|line| line.contains("host-") && !line.starts_with("home ")), out.contains("own"))
}

fn in_project() -> CaseResult {
    let fixture = Fixture::bash("true");
    add_to_project(&fixture, LOOK_SCRIPT);
    let temporary = fixture.at("project/tmp");
    std::fs::create_dir(&temporary).unwrap();
    let said = metier(&fixture, &[("TMPDIR", &temporary)], &["--allow", "write"])?;
    assert_hidden_or_refused(&said);
    Ok(())
}

/// Where mounts cover it the run goes well and sees nothing; elsewhere nothing runs.
fn assert_hidden_or_refused(said: &Output) {
    let error = String::from_utf8_lossy(&said.stderr);
    if said.status.success() {
        assert_eq!(host_and_home(said), (false, true), "{said:?}");
    } else {
        assert!(error.contains("sandbox"), "{said:?}");
    }
}

fn by_link() -> CaseResult {
    let fixture = Fixture::bash("true");
    add_to_project(&fixture, LOOK_SCRIPT);
    std::fs::create_dir(fixture.at("project/tmp")).unwrap();
    symlink("project/tmp", fixture.at("link")).unwrap();
    assert_hidden_or_refused(&metier(&fixture, &[("TMPDIR", &fixture.at("link"))], &["--allow", "write"])?);
    std::fs::create_dir(fixture.at("project/.metier/skills/x/tmp")).unwrap();
    assert_hidden_or_refused(&metier(
        &fixture,
        &[("TMPDIR", &fixture.at("project/.metier/skills/x/tmp"))],
        &[],
    )?);
    Ok(())
}

fn cache() -> CaseResult {
    let fixture = Fixture::bash("true");
    add_to_project(
        &fixture,
        "mkdir -p cache/metier/wasm 2>/dev/null; (echo x > cache/metier/key) 2>/dev/null; find cache -type f; mv cache moved 2>/dev/null; echo own",
    );
    std::fs::create_dir_all(fixture.at("project/cache/metier")).unwrap();
    fixture.write("project/cache/metier/secret", "x");
    let said = metier(&fixture, &[("XDG_CACHE_HOME", &fixture.at("project/cache"))], &["--allow", "write"])?;
    if said.status.success() {
        assert_eq!(String::from_utf8_lossy(&said.stdout), "own\n", "{said:?}");
        assert!(fixture.at("project/cache/metier/secret").exists());
    } else {
        assert!(String::from_utf8_lossy(&said.stderr).contains("sandbox"), "{said:?}");
    }
    Ok(())
}

fn state() -> CaseResult {
    let looks = "find home st -type f 2>/dev/null; (echo x > st/metier/wasm-cache.key) 2>/dev/null; \
        mv st moved 2>/dev/null && echo moved; rm -rf home st 2>/dev/null; echo own";
    for (name, own) in [("XDG_STATE_HOME", "st"), ("HOME", "home")] {
        let folder = if own == "st" { "st/metier" } else { "home/.local/state/metier" };
        for is_there in [true, false] {
            let fixture = Fixture::bash("true");
            add_to_project(&fixture, looks);
            fs::create_dir(fixture.at("project").join(own)).unwrap();
            let key = format!("project/{folder}/wasm-cache.key");
            if is_there {
                fixture.write(&key, "theirs");
            }
            let said = metier(&fixture, &[(name, &fixture.at("project").join(own))], &["--allow", "write"])?;
            if said.status.success() {
                // Where there was none the script may clear away what is its own.
                assert_eq!(String::from_utf8_lossy(&said.stdout).lines().last(), Some("own"), "{said:?}");
                assert!(!is_there || !String::from_utf8_lossy(&said.stdout).contains("key"), "{said:?}");
            } else {
                assert!(
                    is_there && String::from_utf8_lossy(&said.stderr).contains("folders of metier's own"),
                    "{said:?}"
                );
            }
            if is_there {
                assert_eq!(fs::read_to_string(fixture.at(&key)).unwrap(), "theirs");
            }
        }
    }
    Ok(())
}

/// Set in the process that has a folder of temporary files of its own, in which nothing lies of other tests.
const TEMP_VARIABLE: &str = "METIER_SANDBOX_TEMP";

fn around() -> CaseResult {
    if std::env::var_os(TEMP_VARIABLE).is_some() {
        return around_all();
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, level) = LEVELS.into_iter().find(|(known, _)| *known == fixture::level()).unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::every_attack_is_held", "--nocapture"])
        .env("TMPDIR", folder.path())
        .envs([(TEMP_VARIABLE, "yes"), ("METIER_CASE", "O4"), (LEVEL_VARIABLE, level)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("sandbox: 1 cases held"), "{said}");
    Ok(())
}

fn around_all() -> CaseResult {
    let folder = std::env::temp_dir();
    // As another user's, which root could see into. What other users make there meanwhile is not looked for.
    let others = folder.join(format!("metier-{}", 4_000_000_000 - std::process::id()));
    std::fs::create_dir_all(others.join("host-0123456789abcdef")).unwrap();
    std::fs::write(others.join("host-0123456789abcdef/secret"), "secret").unwrap();
    let own = format!("metier-{}", rustix::process::geteuid().as_raw());
    let script = "for own in \"$@\"; do find \"$own\" -path '*/host-*'; cat \"$own\"/host-*/*; done 2>/dev/null; echo looked";
    let fixture = Fixture::bash(script).args(&[&own, others.file_name().unwrap().to_str().unwrap()]);
    let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", fixture.at("skills")));
    let builder = Engine::builder(&folder).roots(roots).sandbox_level(fixture::level());
    let builder = fixture::helper().into_iter().fold(builder, metier::engine::EngineBuilder::helper);
    // Another run has something there meanwhile.
    let other = Fixture::bash("echo secret > \"$HOME/secret\"; sleep 2; echo unharmed");
    let engine = other.engine();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| engine.run(other.invocation()));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let ran = fixture.result(builder.build().unwrap().run(fixture.invocation()));
        if ran.is_in_namespaces() {
            assert_eq!(ran.stdout(), "looked\n", "{ran:?}");
        } else {
            assert_eq!(ran.error().kind(), ErrorKind::SandboxUnavailable, "{ran:?}");
        }
        assert_eq!(beside.join().unwrap().process.unwrap().stdout, "unharmed\n");
    });
    std::fs::remove_dir_all(others).unwrap();
    Ok(())
}

const TIMEOUT: Duration = Duration::from_mins(1);

/// A run of another project's by another host, which goes on until it is told to end. Its own folders lie where this says.
struct OtherHost {
    child: Child,
    go: PathBuf,
}

impl OtherHost {
    fn start(fixture: &Fixture, variable: &str, folder: &Path) -> Result<Self, SkipReason> {
        let program = fixture::helper()
            .ok_or_else(|| SkipReason::Unsupported("the command line is not built in".into()))?;
        fixture.write("other/.metier/skills/v/SKILL.md", "---\nname: v\ndescription: waits\n---\n");
        let script = "import time, os, sys\nopen('began', 'w')\nwhile not os.path.exists('go'): time.sleep(.02)\n\
            import metier\nprint(os.environ['TMPDIR'], getattr(metier, 'CHANGED', 'unchanged'), sorted(set(os.listdir(os.environ['TMPDIR'] + '/..')) - {'home', 'tmp'}))\n";
        fixture.write("other/.metier/skills/v/scripts/main.py", script);
        let mut command = Command::new(program);
        command
            .args(["run", "v", "--allow", "write", "--timeout", "60s", "--project"])
            .arg(fixture.at("other"));
        let command = command.env(variable, folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut other = Self { child: command.spawn().unwrap(), go: fixture.at("other/go") };
        let began = Instant::now();
        while !fixture.at("other/began").exists() {
            assert!(began.elapsed() < TIMEOUT, "it does not begin");
            if other.child.try_wait().unwrap().is_some() {
                return Err(SkipReason::Unsupported(format!(
                    "Python does not run: {:?}",
                    other.child.wait_with_output()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(other)
    }

    /// One whose temporary files are there. While a script of another case sees all temporary files, none goes there.
    fn start_in(fixture: &Fixture, named: &Path) -> Result<Self, SkipReason> {
        let began = Instant::now();
        loop {
            let other = Self::start(fixture, "TMPDIR", named)?;
            if fs::read_dir(named).unwrap().next().is_some() {
                return Ok(other);
            }
            let elsewhere = other.finish();
            assert!(began.elapsed() < TIMEOUT, "they are in {}", elsewhere.display());
            for file in ["other/began", "other/go"] {
                fs::remove_file(fixture.at(file)).unwrap();
            }
        }
    }

    /// Where its temporary files are, once it has ended unharmed.
    fn finish(self) -> PathBuf {
        fs::write(&self.go, "").unwrap();
        let said = self.child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        let (folder, rest) = out.split_once(' ').unwrap_or_default();
        assert_eq!(rest, "unchanged []\n", "{said:?}");
        folder.into()
    }
}

/// Looks for the folders of hosts below, changes all in them, and takes away the folders around them.
const TAMPER_SCRIPT: &str = "find . -path '*/host-*' 2>/dev/null; for file in $(find . -name '*.py' -o -name wasm-cache.key 2>/dev/null); do
        echo 'CHANGED = 1' >> $file; done 2>/dev/null
    for home in $(find . -path '*/host-*/metier-*' -prune 2>/dev/null); do touch $home/x && echo $home; done
    mv tmp moved 2>/dev/null && echo moved; rm -rf tmp/* link/* 2>/dev/null; echo tried";

/// With mounts it finds nothing, without it is refused in a sentence that says what to do.
#[track_caller]
fn assert_kept_out(ran: &RunResult, folder: &str) {
    if ran.is_in_namespaces() {
        assert_eq!(ran.stdout(), "tried\n", "{ran:?}");
        return;
    }
    let error = ran.error();
    let (message, help) = (error.message(), error.help().unwrap_or_default());
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{ran:?}");
    assert!(message.contains("folders of metier's own") && message.contains(folder), "{message}");
    assert!(
        help.contains("TMPDIR") && help.contains("best-effort") && !message.contains("os error"),
        "{help}"
    );
}

fn others_before() -> CaseResult {
    let fixture = Fixture::bash(TAMPER_SCRIPT).grant("write");
    let folder = fixture.at("project/tmp");
    fs::create_dir(&folder).unwrap();
    let other = OtherHost::start_in(&fixture, &folder)?;
    assert_kept_out(&fixture.run(), "tmp/metier-");
    assert!(other.finish().starts_with(folder), "it was not there at all");
    Ok(())
}

fn others_deep() -> CaseResult {
    let fixture = Fixture::bash(TAMPER_SCRIPT).grant("write");
    let folder = fixture.at("project/.vscode/a/b/c");
    fs::create_dir_all(&folder).unwrap();
    symlink("project/.vscode/a/b", fixture.at("link")).unwrap();
    let other = OtherHost::start_in(&fixture, &fixture.at("link/c"))?;
    assert_kept_out(&fixture.run(), ".vscode/a/b/c/metier-");
    assert!(other.finish().starts_with(fs::canonicalize(folder).unwrap()), "it was not there at all");
    Ok(())
}

fn others_after() -> CaseResult {
    let script = "touch here; for _ in $(seq 600); do find . -path '*/host-*' -o -name '*.key'; [ -e stop ] && break; sleep .05; done; echo tried";
    let fixture = Fixture::bash(script).grant("write").deadline(60_000);
    let engine = fixture.engine();
    let folder = fixture.at("project/tmp");
    fs::create_dir(&folder).unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| fixture.result(engine.run(fixture.invocation())));
        let began = Instant::now();
        while !fixture.at("project/here").exists() {
            assert!(began.elapsed() < TIMEOUT, "it does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = OtherHost::start(&fixture, "TMPDIR", &folder).map(OtherHost::finish);
        fs::write(fixture.at("project/stop"), "").unwrap();
        let run = run.join().unwrap();
        assert_eq!(run.stdout(), "tried\n", "{run:?}");
        assert!(!ended?.starts_with(&folder), "it went where the script sees it");
        Ok(())
    })
}

const OWN_FILES: [&str; 3] =
    ["st/metier/wasm-cache.key", "a/.b/metier/wasm/0123456789abcdef", "a/.b/METIER/wasm-cache.key"];

fn others_state() -> CaseResult {
    let script = "for file in \"$@\"; do
            cat $file; (echo changed > $file); (mv $file $file-x && echo moved); ln $file linked && echo linked
        done 2>/dev/null; mv st stood 2>/dev/null && echo moved; rm -rf st a 2>/dev/null; echo tried";
    for file in OWN_FILES {
        let fixture =
            Fixture::bash(script).grant("write").args(&[file]).file(&format!("project/{file}"), "theirs");
        assert_kept_out(&fixture.run(), file.rsplit_once('/').unwrap().0.trim_end_matches("/wasm"));
        assert_eq!(fs::read_to_string(fixture.at("project").join(file)).unwrap(), "theirs", "{file}");
    }
    Ok(())
}

fn others_state_read() -> CaseResult {
    for file in OWN_FILES {
        let script = "cat \"$1\" 2>/dev/null; ls \"${1%/*}\" 2>/dev/null; echo tried";
        let fixture = Fixture::bash(script).args(&[file]).file(&format!("project/{file}"), "theirs");
        assert_kept_out(&fixture.run(), file.rsplit_once('/').unwrap().0.trim_end_matches("/wasm"));
    }
    // Nothing of metier's own: a folder of that name, and names that only look like it.
    let fixture = Fixture::bash("cat metier/src/lib.rs metier-2/notes.txt wasm/metier.rs")
        .file("project/metier/src/lib.rs", "one ")
        .file("project/metier-2/notes.txt", "two ")
        .file("project/wasm/metier.rs", "three");
    assert_eq!(fixture.run().stdout(), "one two three");
    Ok(())
}

fn by_host_functions() -> CaseResult {
    let script = "for path in tmp/metier-0/host-0123456789abcdef/drafts st/metier/wasm/0 st/Metier/wasm-cache.key; do
            metier ctx write $path x; metier ctx mkdir ${path%/*}/wasm/host-1; metier ctx read_file $path
        done 2>&1 | grep -v \"it is metier's own\\|needs write:\\|needs read:\\|^ *$\"; find . -type f; echo tried";
    let fixture = Fixture::bash(script).grant("write");
    let said = fixture.run();
    assert!(said.stdout().ends_with("./own\ntried\n"), "{said:?}");
    Ok(())
}
