//! Answers that hold beyond their run: for a session and for good, with patterns of arguments, for skills that others call.

use super::*;

#[test]
fn an_answer_for_the_session_holds_for_the_same_bytes_in_clones_of_the_engine() {
    let project = writing_project()
        .skill("y", "allowed-tools: write:out\n")
        .file(".metier/skills/y/scripts/main.lua", "ctx.write('out/y', '') return 'y'");
    let dialog = Dialog::always(Approval::Session);
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    for _ in 0..3 {
        assert_eq!(value(engine.clone().run(Invocation::new("x"))), "written");
    }
    assert_eq!(value(engine.run(Invocation::new("x").input(json!({"path": "out/b"})))), "written");
    assert_eq!(dialog.asked().len(), 1);
    assert_eq!(value(engine.run(Invocation::new("y"))), "y");
    assert_eq!(dialog.asked().len(), 2, "another skill");
    project.builder().approver(dialog.clone()).build().unwrap().run(Invocation::new("x"));
    assert_eq!(dialog.asked().len(), 3, "another engine");
    let project = project.file(".metier/skills/x/scripts/main.lua", format!("{WRITES} -- changed"));
    engine.run(Invocation::new("x"));
    assert_eq!(dialog.asked().len(), 4, "other bytes");
    engine.run(Invocation::new("x"));
    let project = project.file(".metier/skills/x/assets/more", "added");
    assert_eq!(dialog.asked().len(), 4);
    engine.run(Invocation::new("x"));
    assert_eq!(dialog.asked().len(), 5, "a file was added");
    std::fs::remove_file(project.path(".metier/skills/x/assets/more")).unwrap();
}

#[cfg(unix)]
#[test]
fn an_answer_for_the_session_is_none_for_another_project_at_the_same_path() {
    let project = writing_project();
    let dialog = Dialog::always(Approval::Session);
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), "written");
    project.replace();
    assert_eq!(value(engine.run(Invocation::new("x"))), "written");
    assert_eq!(dialog.asked().len(), 2);
}

#[test]
fn an_answer_for_the_session_to_a_callee_is_none_to_the_skill_itself_or_under_another_caller() {
    let calls = "return ctx.skill('y')";
    let project = Project::lua_with_tools("skill:y write:out", calls)
        .skill("z", "allowed-tools: skill:y write:out\n")
        .file(".metier/skills/z/scripts/main.lua", calls)
        .skill("y", "allowed-tools: write:out\n")
        .file(".metier/skills/y/scripts/main.lua", "ctx.write('out/y', '') return 'y'");
    let dialog = Dialog::always(Approval::Session);
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    for (skill, questions) in [("x", 1), ("x", 1), ("z", 2), ("y", 3), ("x", 3), ("y", 3)] {
        assert_eq!(value(engine.run(granted(Invocation::new(skill), &["skill:y"]))), "y");
        assert_eq!(dialog.asked().len(), questions, "{skill}");
    }
    // The caller decides what it passes on.
    let project = project.file(".metier/skills/x/scripts/main.lua", format!("{calls} -- changed"));
    engine.run(granted(Invocation::new("x"), &["skill:y"]));
    assert_eq!(dialog.asked().len(), 4, "a caller changed");
    drop(project);
}

#[test]
fn an_answer_for_a_pattern_of_arguments_is_none_for_others() {
    let pattern = ArgumentPattern::from_json(json!({"input": {"path": "out/*.txt"}})).unwrap();
    let project = writing_project();
    let dialog = Dialog::always(Approval::Always(pattern));
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    let mut questions = 0;
    for (input, is_asked) in [
        (json!({"path": "out/a.txt"}), true),
        (json!({"path": "out/b.txt"}), false),
        (json!({"path": "out/../out/b.txt"}), true),
        (json!({"path": "out/deep/b.txt"}), true),
        (json!({"path": "out/b.txt", "more": 1}), true),
        (json!({"path": "out/a.txt"}), false),
    ] {
        let outcome = engine.run(Invocation::new("x").input(input.clone()));
        questions += usize::from(is_asked);
        assert_eq!(dialog.asked().len(), questions, "{input}: {:?}", outcome.result);
    }
    engine.run(Invocation::new("x").input(json!({"path": "out/a.txt"})).args(["--more"]));
    assert_eq!(dialog.asked().len(), questions + 1);
}

#[test]
fn a_late_answer_is_not_remembered() {
    let (sender, answered) = std::sync::mpsc::channel();
    let slow = Dialog::new(move |_, _| {
        std::thread::sleep(Duration::from_millis(300));
        sender.send(()).ok();
        Ok(Approval::Session)
    });
    let dialog = Dialog { limit: Duration::from_millis(50), ..slow };
    let project = writing_project();
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    for questions in 1..=2 {
        assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::Denied);
        answered.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(dialog.asked().len(), questions);
    }
}

#[test]
fn a_thousand_answers_for_the_session_are_remembered_and_no_more_than_a_bound() {
    let project = Project::lua_with_tools("write:out", "for i = 1, 2 do ctx.write(input.path, '') end");
    let dialog = Dialog::new(|ctx, _| {
        let path = ctx.project_root().unwrap().join(".metier/skills/x/assets/n");
        assert!(path.parent().unwrap().exists());
        Ok(Approval::Session)
    });
    let project = project.file(".metier/skills/x/assets/n", "0");
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    let run = |number: usize| {
        std::fs::write(project.path(".metier/skills/x/assets/n"), number.to_string()).unwrap();
        value(engine.run(Invocation::new("x").input(json!({"path": "out/a"}))));
        dialog.asked().len()
    };
    for number in 0..1_100 {
        assert_eq!(run(number), number + 1);
    }
    assert_eq!(run(1_099), 1_100, "the latest is known");
    assert_eq!(run(200), 1_100, "and so are a thousand");
    assert_eq!(run(0), 1_101, "the first was forgotten");
}

/// A store outside of the project.
fn store(data: &tempfile::TempDir) -> TrustStore {
    TrustStore::new(data.path().join("trust"))
}

#[test]
fn an_answer_for_good_is_recorded_and_holds_in_other_engines_while_nothing_changes() {
    let data = tempfile::tempdir().unwrap();
    let project = writing_project();
    store(&data).trust_folder(ProjectIdentity::new(project.root()).unwrap()).unwrap();
    let pattern = ArgumentPattern::from_json(json!({"input": {"path": "out/*.txt"}})).unwrap();
    let dialog = Dialog::always(Approval::Always(pattern));
    let engine = || project.builder().trust(store(&data)).approver(dialog.clone()).build().unwrap();
    let run = |path: &str| engine().run(Invocation::new("x").input(json!({"path": path})));
    let first = run("out/a.txt");
    assert_eq!(
        serde_json::to_value(&first.grants).unwrap(),
        json!([{"permission": "write:out", "origin": "approver"}])
    );
    value(first);
    let second = run("out/b.txt");
    let grants = serde_json::to_value(&second.grants).unwrap();
    assert_eq!((&grants[0]["origin"], &grants[0]["by"]), (&json!("remembered"), &json!("approval")));
    value(second);
    assert_eq!(dialog.asked().len(), 1);
    for other in ["out/deep/a.txt", "out/../out/a.txt"] {
        drop(run(other));
    }
    assert_eq!(dialog.asked().len(), 3, "other arguments");
    let without = Invocation::new("x").input(json!({"path": "out/c.txt"})).without_remembered_grants();
    engine().run(without);
    assert_eq!(dialog.asked().len(), 4);
    std::fs::write(project.path(".metier/skills/x/scripts/more.lua"), "").unwrap();
    engine().run(Invocation::new("x").script("scripts/main.lua").input(json!({"path": "out/b.txt"})));
    assert_eq!(dialog.asked().len(), 5, "a file was added");
}

#[test]
fn an_answer_for_good_that_cannot_be_recorded_holds_for_the_session_and_the_log_says_so() {
    let data = tempfile::tempdir().unwrap();
    // A file stands where the store would be.
    std::fs::write(data.path().join("trust"), "").unwrap();
    let project = writing_project();
    let dialog = Dialog::always(Approval::Always(ArgumentPattern::any()));
    let engine = project.builder().trust(store(&data)).approver(dialog.clone()).build().unwrap();
    let outcome = engine.run(Invocation::new("x").input(json!({})));
    let log: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
    assert!(log.iter().any(|line| line.contains("for this session only")), "{log:?}");
    value(outcome);
    value(engine.run(Invocation::new("x").input(json!({}))));
    assert_eq!(dialog.asked().len(), 1);
}

#[test]
fn what_is_approved_for_a_callee_is_not_recorded_for_it() {
    let data = tempfile::tempdir().unwrap();
    let project = Project::lua_with_tools("skill:y write:out", "return ctx.skill('y')")
        .skill("y", "allowed-tools: write:out\n")
        .file(".metier/skills/y/scripts/main.lua", "ctx.write('out/y', '') return 'y'");
    let dialog = Dialog::always(Approval::Always(ArgumentPattern::any()));
    let engine = project.builder().trust(store(&data)).approver(dialog).build().unwrap();
    assert_eq!(value(engine.run(granted(Invocation::new("x"), &["skill:y"]))), "y");
    assert!(store(&data).records().unwrap().grants.is_empty());
}

#[test]
fn a_yes_for_a_caller_is_none_for_a_skill_that_was_not_shown_or_has_changed() {
    const CALLEE: &str = ".metier/skills/y/scripts/main.lua";
    const WRITES: &str = "ctx.write('out/y', 'y') return 'wrote'";
    for (changes, asks) in [(false, &["x"][..]), (true, &["x", "y"])] {
        let script = "ctx.write('out/x', 'x') ctx.tool('pause', {}) return ctx.skill('y')";
        let project = Project::lua_with_tools("skill:y tool:pause write:out", script)
            .skill("y", "allowed-tools: write:out\n")
            .file(CALLEE, WRITES);
        let dialog = Dialog::new(|_, request| Ok(request.skill == "x"));
        let path = project.path(CALLEE);
        let pause = ClosureTools::new().tool("pause", "d", json!({}), move |_, _| {
            if changes {
                std::fs::write(&path, format!("{WRITES} -- other")).unwrap();
            }
            Ok(Value::Null)
        });
        let engine = project.builder().tools(pause).approver(dialog.clone()).build().unwrap();
        let run = engine.run(granted(Invocation::new("x"), &["skill:y", "tool:pause"]));
        let asked: Vec<String> = dialog.asked().into_iter().map(|request| request.skill).collect();
        assert_eq!(asked, asks, "{run:?}");
        assert_eq!(project.path("out/y").exists(), !changes);
    }
}

#[test]
#[cfg(all(feature = "cli", feature = "sandboxed", target_os = "linux"))]
fn a_yes_for_the_session_is_none_for_a_callee_that_its_digest_does_not_count() {
    if crate::support::not_run::find_program("python3").is_none() {
        return crate::support::not_run::not_run("a Python script", "python3 is not installed");
    }
    // A process may request everything, so nobody knows which skills it calls.
    let script = "from metier import ctx\nctx.write('out/x', 'x')\nctx.skill('y')\nprint('true')";
    let callee = "ctx.write('out/y', 'y') return 1";
    let project = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/main.py", script)
        .skill("y", "allowed-tools: write:out\n")
        .file(".metier/skills/y/scripts/main.lua", callee);
    let dialog =
        Dialog::new(|_, request| Ok(if request.skill == "x" { Approval::Session } else { Approval::No }));
    let builder = project.builder().helper(env!("CARGO_BIN_EXE_metier"));
    let engine = builder.approver(dialog.clone()).build().unwrap();
    for _ in 0..2 {
        let run = engine.run(granted(Invocation::new("x"), &["skill:y"]));
        assert_eq!(project.read("out/x"), "x", "{run:?}");
        assert_eq!(dialog.asked().last().unwrap().skill, "y", "{run:?}");
        assert!(!project.path("out/y").exists(), "{run:?}");
    }
}

#[test]
fn an_answer_for_the_session_is_none_for_a_model_or_of_another_approver() {
    let project = writing_project();
    let dialog = Dialog::always(Approval::Session);
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    let run = |invocation: Invocation| value(engine.run(invocation));
    run(Invocation::new("x"));
    run(Invocation::new("x").for_model());
    assert_eq!(dialog.asked().len(), 2, "a model is not the person");
    run(Invocation::new("x").for_model());
    assert_eq!(dialog.asked().len(), 2);
    let other = Dialog::always(Approval::Session);
    run(Invocation::new("x").providers(metier::host::Providers::default().approver(other.clone())));
    assert_eq!((dialog.asked().len(), other.asked().len()), (2, 1), "another approver decides itself");
}

#[test]
fn a_pattern_with_a_secret_is_not_recorded() {
    for is_asked_first in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let script = "ctx.write('out/a', '') return ctx.secret('KEY') ~= nil";
        let project = Project::lua_with_tools("write:out secret:KEY", script);
        let dialog = Dialog::new(|_, request| {
            let input = json!({"text": "s3cret*value"});
            let args = request.args.clone();
            Ok(Approval::Always(ArgumentPattern::exactly(Some(&input), &args)?))
        });
        let fixtures = metier::host::Fixtures::new(r#"{"secrets": {"KEY": "s3cret*value"}}"#).unwrap();
        let providers = fixtures.providers().approver(dialog);
        let engine = project.builder().trust(store(&data)).build().unwrap();
        let run = Invocation::new("x").input(json!({"text": "s3cret*value"})).providers(providers);
        let run = granted(run, &["secret:KEY"]);
        let outcome = engine.run(if is_asked_first { run.ask_first() } else { run });
        assert!(outcome.log.iter().any(|line| line.message.contains("holds a secret")), "{:?}", outcome.log);
        value(outcome);
        assert!(store(&data).records().unwrap().grants.is_empty());
    }
}
