//! What a person typed is a yes, what a model chose is not.

use std::fs;

use metier::engine::{Engine, Invocation, TrustReason, TrustState};
use metier::error::{ErrorKind, Hint};
use metier::registry::{EmbeddedSkill, Root, Scope};
use metier::trust::ProjectIdentity;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value, write};
use crate::trust::{Stage, for_model, state, trust};

const SCRIPT: &str = ".metier/skills/x/scripts/main.lua";

fn catalog(engine: &Engine) -> String {
    engine.catalog(&engine.registry()).list()
}

#[test]
fn nothing_of_an_untrusted_project_reaches_a_model_and_a_person_runs_it() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    assert_eq!(state(&engine, "x"), TrustState::Untrusted { reason: None });
    assert_eq!(catalog(&engine), "");
    let refused = for_model(&engine);
    assert_eq!(kind(&refused), ErrorKind::Untrusted);
    assert!(sentence(&refused).contains("project/.metier:x@0.0.0"), "{}", sentence(&refused));
    let root = fs::canonicalize(stage.project.root()).unwrap().display().to_string();
    assert_eq!(refused.result.as_ref().unwrap_err().hint(), Some(&Hint::Trust(root)));
    assert_eq!(refused.exit_code(), 4);
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(1), "a person typed it");
    assert_eq!(value(engine.run(Invocation::new("x").for_model().trust_once())), json!(1));
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted, "once was once");
    trust(&engine, "x");
    assert_eq!(state(&engine, "x"), TrustState::Trusted { by: TrustReason::Digest });
    assert_eq!(catalog(&engine), "- x: d\n");
    let outcome = for_model(&engine);
    let digest = engine.skill_files(engine.registry().find("x").unwrap()).unwrap().digest;
    assert_eq!(outcome.digest, Some(digest));
    assert_eq!(value(outcome), json!(1));
}

#[test]
fn an_engine_without_a_store_trusts_what_it_is_handed_and_computes_nothing() {
    let project = Project::lua("return 1");
    let engine = project.engine();
    assert_eq!(state(&engine, "x"), TrustState::Trusted { by: TrustReason::Location });
    let outcome = for_model(&engine);
    assert_eq!(outcome.digest, None);
    assert_eq!(value(outcome), json!(1));
    assert_eq!(catalog(&engine), "- x: d\n");
}

#[test]
fn a_changed_skill_is_untrusted_and_names_its_files() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    trust(&engine, "x");
    write(&stage.project.path(SCRIPT), "return 2");
    write(&stage.project.path(".metier/skills/x/.hidden"), "");
    let TrustState::Changed { files } = state(&engine, "x") else { panic!("{:?}", state(&engine, "x")) };
    let shown: Vec<String> = files.iter().map(|file| format!("{} {}", file.path, file.change)).collect();
    assert_eq!(shown, [".hidden added", "scripts/main.lua changed"]);
    let refused = for_model(&engine);
    assert_eq!(kind(&refused), ErrorKind::Untrusted);
    let shown = sentence(&refused);
    assert!(shown.contains("has changed since it was trusted (2 files)"), "{shown}");
    assert!(!format!("{refused:?}").contains(".hidden"), "the names of files are text of the skill");
    assert_eq!(catalog(&engine), "");
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(2));
    trust(&engine, "x");
    assert_eq!(value(for_model(&engine)), json!(2));
}

#[test]
fn a_trusted_folder_trusts_what_lies_there_now_and_later() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    engine.trust_store().unwrap().trust_folder(ProjectIdentity::new(stage.project.root()).unwrap()).unwrap();
    assert_eq!(state(&engine, "x"), TrustState::Trusted { by: TrustReason::Folder });
    write(&stage.project.path(SCRIPT), "return 2");
    assert_eq!(value(for_model(&engine)), json!(2));
    assert!(engine.trust_store().unwrap().revoke_folder(stage.project.root()).unwrap());
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
}

#[test]
fn a_folder_whose_name_only_begins_alike_is_not_trusted() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    let sibling = stage.project.path(".metier/skills/x/scripts");
    engine.trust_store().unwrap().trust_folder(ProjectIdentity::new(&sibling).unwrap()).unwrap();
    fs::create_dir(stage.project.path(".metier/skil")).unwrap();
    engine
        .trust_store()
        .unwrap()
        .trust_folder(ProjectIdentity::new(&stage.project.path(".metier/skil")).unwrap())
        .unwrap();
    assert_eq!(state(&engine, "x"), TrustState::Untrusted { reason: None });
}

#[test]
fn a_link_that_leads_out_of_a_trusted_folder_is_not_trusted() {
    let elsewhere = Project::lua("return 'elsewhere'");
    let stage = Stage::with(Project::new().link(elsewhere.path(".metier/skills/x"), ".metier/skills/x"));
    let engine = stage.engine();
    engine.trust_store().unwrap().trust_folder(ProjectIdentity::new(stage.project.root()).unwrap()).unwrap();
    assert_eq!(state(&engine, "x"), TrustState::Untrusted { reason: None });
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
}

static EMBEDDED: &[EmbeddedSkill] = &[EmbeddedSkill::new(
    "inside",
    &[
        ("SKILL.md", b"---\nname: inside\ndescription: d\nallowed-tools: skill:project/.metier:y\n---\n"),
        ("scripts/main.lua", b"return ctx.skill('project/.metier:y')"),
    ],
)];

#[test]
fn what_is_the_users_own_is_trusted_and_what_it_calls_is_asked_about() {
    let user = Project::new()
        .skill("mine", "allowed-tools: skill:project/.metier:y\n")
        .file(".metier/skills/mine/scripts/main.lua", "return ctx.skill('project/.metier:y')");
    let stage =
        Stage::with(Project::new().skill("y", "").file(".metier/skills/y/scripts/main.lua", "return 'y'"));
    let roots = stage.project.roots();
    let roots = roots
        .with(Root::new(Scope::User, "user", user.path(".metier/skills")))
        .with_embedded("acme", EMBEDDED);
    let engine = stage.project.builder().roots(roots).trust(stage.store()).build().unwrap();
    for name in ["mine", "inside"] {
        assert_eq!(state(&engine, name), TrustState::Trusted { by: TrustReason::Location });
        let run = || {
            let grant = "skill:project/.metier:y".parse().unwrap();
            engine.run(Invocation::new(name).for_model().grant(grant))
        };
        let refused = run();
        assert_eq!(kind(&refused), ErrorKind::Untrusted, "{name} calls a skill that nobody trusts");
        trust(&engine, "y");
        assert_eq!(value(run()), json!("y"));
        engine.trust_store().unwrap().revoke_skills(|skill| skill.skill == "project/.metier:y").unwrap();
        assert_eq!(kind(&run()), ErrorKind::Untrusted);
    }
}

#[test]
fn an_explicit_root_is_trusted_only_outside_of_the_project() {
    let outside = Project::lua("return 1");
    let stage = Stage::with(Project::new());
    for (project, is_trusted) in [(stage.project.root(), true), (outside.root(), false)] {
        let root = Root::new(Scope::Explicit, "named", outside.path(".metier/skills"));
        let roots = metier::registry::Roots::empty().with(root);
        let engine = Engine::builder(project).roots(roots).trust(stage.store()).build().unwrap();
        assert_eq!(state(&engine, "x").is_trusted(), is_trusted);
    }
}

#[test]
fn a_link_of_the_project_is_not_trusted_for_where_it_leads() {
    let outside = Project::lua("return 1");
    let stage = Stage::with(
        Project::new()
            .link(outside.path(".metier/skills"), "vendor")
            .link(outside.path(".metier/skills/x"), "skills/x")
            .link(outside.root(), "deep/linked"),
    );
    for (root, is_trusted) in [
        (outside.path(".metier/skills"), true),
        (stage.project.path("vendor"), false),
        (stage.project.path("skills"), false),
        (stage.project.path("deep/linked/.metier/skills"), false),
    ] {
        let roots = metier::registry::Roots::empty().with(Root::new(Scope::Explicit, "named", &root));
        let engine = stage.project.builder().roots(roots).trust(stage.store()).build().unwrap();
        assert_eq!(state(&engine, "x").is_trusted(), is_trusted, "{}", root.display());
    }
}

#[test]
fn a_catalog_shows_no_text_that_was_there_before_what_is_trusted() {
    let stage = Stage::lua("read", "return 1");
    let engine = stage.engine();
    trust(&engine, "x");
    let text = stage.project.path(".metier/skills/x/SKILL.md");
    let good = fs::read_to_string(&text).unwrap();
    write(&text, good.replace("description: d", "description: evil"));
    engine.reload().unwrap();
    let earlier = engine.registry();
    write(&text, &good);
    assert!(state(&engine, "x").is_trusted(), "as it is on disk");
    assert_eq!(engine.catalog(&earlier).list(), "");
    engine.reload().unwrap();
    assert_eq!(catalog(&engine), "- x: d\n");
}

#[test]
fn a_skill_that_is_trusted_wherever_its_files_are_is_not_read() {
    let user = Project::lua("return 1");
    let stage = Stage::with(Project::new());
    let roots = stage.project.roots().with(Root::new(Scope::User, "user", user.path(".metier/skills")));
    let engine = stage.project.builder().roots(roots).trust(stage.store()).build().unwrap();
    let outcome = for_model(&engine);
    assert_eq!(outcome.digest, None);
    assert_eq!(value(outcome), json!(1));
    let files = engine.skill_files(engine.registry().find("x").unwrap()).unwrap();
    let asked = engine.run(Invocation::new("x").digest(files.digest));
    assert_eq!(asked.digest, Some(files.digest), "whoever names one has it compared");
    let grant = ["tool:a".parse().unwrap()];
    engine.trust_store().unwrap().grant(("x", files.digest), None, &grant, "a test").unwrap();
    assert_eq!(for_model(&engine).digest, Some(files.digest), "a grant is bound to the files");
}

#[test]
fn a_project_that_was_renamed_or_made_again_is_another_one() {
    let parent = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let skill = parent.path().join(name).join(".metier/skills/x");
        write(&skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n");
        write(&skill.join("scripts/main.lua"), "return 1");
        parent.path().join(name)
    };
    let stage = Stage::with(Project::new());
    let is_trusted = |project: &std::path::Path| {
        let roots = metier::registry::Roots::empty().with(Root::new(
            Scope::Project,
            ".metier",
            project.join(".metier/skills"),
        ));
        let engine = Engine::builder(project).roots(roots).trust(stage.store()).build().unwrap();
        state(&engine, "x").is_trusted()
    };
    let project = make("p");
    let roots = metier::registry::Roots::empty().with(Root::new(
        Scope::Project,
        ".metier",
        project.join(".metier/skills"),
    ));
    let engine = Engine::builder(&project).roots(roots).trust(stage.store()).build().unwrap();
    trust(&engine, "x");
    stage.store().trust_folder(ProjectIdentity::new(&project).unwrap()).unwrap();
    assert!(is_trusted(&project));
    // Another case and another form of Unicode are other names.
    for other in ["P", "p ", "p\u{301}", "\u{ff50}"] {
        assert!(!is_trusted(&make(other)), "{other:?}");
    }
    let moved = parent.path().join("moved");
    fs::rename(&project, &moved).unwrap();
    assert!(!is_trusted(&moved), "it was renamed");
    let again = make("p");
    assert!(!is_trusted(&again), "made again at the same path, byte for byte");
    let known = stage.store().records().unwrap();
    assert_ne!(known.skills[0].project, ProjectIdentity::new(&again).unwrap());
    fs::remove_dir_all(&again).unwrap();
    std::os::unix::fs::symlink(&moved, &project).unwrap();
    assert!(!is_trusted(&project), "a link to the old one");
    fs::remove_file(&project).unwrap();
    fs::rename(&moved, &project).unwrap();
    assert!(is_trusted(&project), "it is back");
}

#[test]
fn a_path_that_is_no_text_cannot_be_trusted() {
    use std::os::unix::ffi::OsStrExt;
    let parent = tempfile::tempdir().unwrap();
    let project = parent.path().join(std::ffi::OsStr::from_bytes(b"p\xff"));
    write(&project.join(".metier/skills/x/SKILL.md"), "---\nname: x\ndescription: d\n---\n");
    write(&project.join(".metier/skills/x/scripts/main.lua"), "return 1");
    let stage = Stage::with(Project::new());
    let roots = metier::registry::Roots::empty().with(Root::new(
        Scope::Project,
        ".metier",
        project.join(".metier/skills"),
    ));
    let engine = Engine::builder(&project).roots(roots).trust(stage.store()).build().unwrap();
    assert!(!state(&engine, "x").is_trusted());
    assert_eq!(kind(&for_model(&engine)), ErrorKind::Untrusted);
    let error = ProjectIdentity::new(&project).unwrap_err();
    assert!(error.message().contains("its path is not UTF-8"), "{error}");
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(1), "a person runs it");
}

/// A project that nobody trusts would otherwise take any skill of the user from every model, by its name alone.
#[test]
fn an_untrusted_skill_hides_no_trusted_one_of_its_name() {
    let user = Project::new()
        .file(
            ".metier/skills/x/SKILL.md",
            "---\nname: x\ndescription: mine\nmetadata:\n  version: 1.0.0\n---\n",
        )
        .file(".metier/skills/x/scripts/main.lua", "return 'mine'");
    let stage = Stage::lua("read", "return 'theirs'");
    let roots = stage.project.roots().with(Root::new(Scope::User, "user", user.path(".metier/skills")));
    let engine = stage.project.builder().roots(roots).trust(stage.store()).build().unwrap();
    assert_eq!(catalog(&engine), "- x: mine\n");
    for name in ["x", "x@^1", " x "] {
        let outcome = engine.run(Invocation::new(name).for_model());
        assert_eq!(value(outcome), json!("mine"), "{name}");
    }
    assert_eq!(value(engine.run(Invocation::new("x"))), json!("theirs"), "a person means the nearest one");
    let once = engine.run(Invocation::new("x").for_model().trust_once());
    assert_eq!(value(once), json!("theirs"), "a yes for this run is one for the nearest");
    let named = engine.run(Invocation::new("project/.metier:x").for_model());
    assert_eq!(kind(&named), ErrorKind::Untrusted, "a full name means that skill");
    let digest = engine.skill_files(engine.registry().find("x").unwrap()).unwrap().digest;
    let shown = engine.run(Invocation::new("x").for_model().digest(digest));
    assert_eq!(kind(&shown), ErrorKind::Untrusted, "so does a digest");
    trust(&engine, "x");
    assert_eq!((catalog(&engine), value(for_model(&engine))), ("- x: d\n".into(), json!("theirs")));
    write(&stage.project.path(SCRIPT), "return 'other'");
    assert_eq!((catalog(&engine), value(for_model(&engine))), ("- x: mine\n".into(), json!("mine")));
    fs::remove_dir_all(user.path(".metier/skills/x")).unwrap();
    engine.reload().unwrap();
    assert_eq!(
        kind(&for_model(&engine)),
        ErrorKind::Untrusted,
        "without another one it is refused as before"
    );
}

/// A person trusts a project by a command in it; an editor opens it as the second folder of a workspace.
#[test]
fn what_is_trusted_in_a_project_is_trusted_in_a_workspace() {
    let skill = |project: Project, folder: &str, name: &str, script: &str| {
        let text = format!("---\nname: {name}\ndescription: d\nallowed-tools: skill:helper-{folder}\n---\n");
        project
            .file(&format!("{folder}/.metier/skills/{name}/SKILL.md"), text)
            .file(&format!("{folder}/.metier/skills/{name}/scripts/main.lua"), script)
    };
    let calls = |folder: &str| format!("return ctx.skill('helper-{folder}')");
    let mut project = Project::new();
    for folder in ["a", "b"] {
        project = skill(project, folder, &format!("x-{folder}"), &calls(folder));
        project = skill(project, folder, &format!("helper-{folder}"), "return 1");
    }
    let stage = Stage::with(project);
    let (a, b) = (stage.project.path("a"), stage.project.path("b"));
    for folder in [&a, &b] {
        let roots = metier::registry::Roots::empty().with_project("metier", folder);
        let engine = Engine::builder(folder).roots(roots).trust(stage.store()).build().unwrap();
        for skill in engine.registry().skills() {
            trust(&engine, skill.name());
        }
    }
    let roots = metier::registry::Roots::empty().with_project("metier", &a).with_project("metier", &b);
    let engine = Engine::builder(&a).folder(&b).roots(roots).trust(stage.store()).build().unwrap();
    for folder in ["a", "b"] {
        let name = format!("x-{folder}");
        assert_eq!(state(&engine, &name), TrustState::Trusted { by: TrustReason::Digest }, "{name}");
        let grant = format!("skill:helper-{folder}").parse().unwrap();
        assert_eq!(value(engine.run(Invocation::new(&name).for_model().grant(grant))), json!(1));
    }
    write(&b.join(".metier/skills/helper-b/scripts/main.lua"), "return 2");
    assert!(!state(&engine, "x-b").is_trusted(), "its callee has changed");
    assert!(state(&engine, "x-a").is_trusted());
}
