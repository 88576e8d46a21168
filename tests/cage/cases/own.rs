//! metier's own folders, which no script sees, wherever they lie.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use metier::engine::Engine;
use metier::error::ErrorKind;
use metier::registry::{Root, Roots, Scope};

use super::case;
use crate::case::{Case, NotRun, TIER, TIERS, Tried};
use crate::stage::{self, Stage};

pub const CASES: &[Case] = &[
    case("O1", "temporary files of metier's that lie in the project, by TMPDIR", in_project),
    case("O2", "the same by a link, and in the skill's folder", by_link),
    case("O3", "metier's cache in the project", cache),
    case("O4", "a project in which the temporary files of all runs lie", around),
];

/// The command on the stage's project with these variables.
fn metier(stage: &Stage, variables: &[(&str, &Path)], arguments: &[&str]) -> Result<Output, NotRun> {
    let program = stage::helper().ok_or_else(|| NotRun::Here("the command line is not built in".into()))?;
    let mut command = Command::new(program);
    command.args(["run", "x", "--project"]).arg(stage.at("project")).args(arguments);
    Ok(command.envs(variables.iter().copied()).output().unwrap())
}

/// The skill of the stage, once more in its project.
fn in_own_project(stage: &Stage, script: &str) {
    stage.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: looks\n---\n");
    stage.write("project/.metier/skills/x/scripts/run.bash", script);
}

const LOOKS: &str = "echo \"home $HOME\"; find . -name 'host-*' 2>/dev/null; touch \"$HOME/x\" && echo own";

fn found(said: &Output) -> (bool, bool) {
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{out} {}", String::from_utf8_lossy(&said.stderr));
    (out.lines().any(|line| line.contains("host-") && !line.starts_with("home ")), out.contains("own"))
}

fn in_project() -> Tried {
    let stage = Stage::bash("true");
    in_own_project(&stage, LOOKS);
    let temporary = stage.at("project/tmp");
    std::fs::create_dir(&temporary).unwrap();
    let said = metier(&stage, &[("TMPDIR", &temporary)], &["--allow", "write"])?;
    assert_said(&said);
    Ok(())
}

/// Where mounts cover it the run goes well and sees nothing; elsewhere nothing runs.
fn assert_said(said: &Output) {
    let error = String::from_utf8_lossy(&said.stderr);
    if said.status.success() {
        assert_eq!(found(said), (false, true), "{said:?}");
    } else {
        assert!(error.contains("sandbox"), "{said:?}");
    }
}

fn by_link() -> Tried {
    let stage = Stage::bash("true");
    in_own_project(&stage, LOOKS);
    std::fs::create_dir(stage.at("project/tmp")).unwrap();
    symlink("project/tmp", stage.at("link")).unwrap();
    assert_said(&metier(&stage, &[("TMPDIR", &stage.at("link"))], &["--allow", "write"])?);
    std::fs::create_dir(stage.at("project/.metier/skills/x/tmp")).unwrap();
    assert_said(&metier(&stage, &[("TMPDIR", &stage.at("project/.metier/skills/x/tmp"))], &[])?);
    Ok(())
}

fn cache() -> Tried {
    let stage = Stage::bash("true");
    in_own_project(
        &stage,
        "mkdir -p cache/metier/wasm 2>/dev/null; (echo x > cache/metier/key) 2>/dev/null; find cache -type f; mv cache moved 2>/dev/null; echo own",
    );
    std::fs::create_dir_all(stage.at("project/cache/metier")).unwrap();
    stage.write("project/cache/metier/secret", "x");
    let said = metier(&stage, &[("XDG_CACHE_HOME", &stage.at("project/cache"))], &["--allow", "write"])?;
    if said.status.success() {
        assert_eq!(String::from_utf8_lossy(&said.stdout), "own\n", "{said:?}");
        assert!(stage.at("project/cache/metier/secret").exists());
    } else {
        assert!(String::from_utf8_lossy(&said.stderr).contains("sandbox"), "{said:?}");
    }
    Ok(())
}

/// Set in the process that has a folder of temporary files of its own, in which nothing lies of other tests.
const ALONE: &str = "METIER_CAGE_TEMPORARY";

fn around() -> Tried {
    if std::env::var_os(ALONE).is_some() {
        return around_all();
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, tier) = TIERS.into_iter().find(|(known, _)| *known == stage::tier()).unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "every_attack_is_held", "--nocapture"])
        .env("TMPDIR", folder.path())
        .envs([(ALONE, "yes"), ("METIER_CASE", "O4"), (TIER, tier)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("cage: 1 cases held"), "{said}");
    Ok(())
}

fn around_all() -> Tried {
    let folder = std::env::temp_dir();
    // As another user's, which root could see into. What other users make there meanwhile is not looked for.
    let others = folder.join(format!("metier-{}", 4_000_000_000 - std::process::id()));
    std::fs::create_dir_all(others.join("host-0123456789abcdef")).unwrap();
    std::fs::write(others.join("host-0123456789abcdef/secret"), "secret").unwrap();
    let own = format!("metier-{}", rustix::process::geteuid().as_raw());
    let script = "for own in \"$@\"; do find \"$own\" -path '*/host-*'; cat \"$own\"/host-*/*; done 2>/dev/null; echo looked";
    let stage = Stage::bash(script).args(&[&own, others.file_name().unwrap().to_str().unwrap()]);
    let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", stage.at("skills")));
    let builder = Engine::builder(&folder).roots(roots).tier(stage::tier());
    let builder = stage::helper().into_iter().fold(builder, metier::engine::EngineBuilder::helper);
    // Another run has something there meanwhile.
    let other = Stage::bash("echo secret > \"$HOME/secret\"; sleep 2; echo unharmed");
    let engine = other.engine();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| engine.run(other.invocation()));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let ran = stage.ran(builder.build().unwrap().run(stage.invocation()));
        if ran.is_in_namespaces() {
            assert_eq!(ran.said(), "looked\n", "{ran:?}");
        } else {
            assert_eq!(ran.error().kind(), ErrorKind::SandboxUnavailable, "{ran:?}");
        }
        assert_eq!(beside.join().unwrap().process.unwrap().stdout, "unharmed\n");
    });
    std::fs::remove_dir_all(others).unwrap();
    Ok(())
}
