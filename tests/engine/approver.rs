//! What an approver is asked, what its answer permits, and that it cannot hold a run or widen it.

mod remembered;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::{ErrorKind, Result};
use metier::host::{
    ApprovalNeed, ApprovalRequest, Approver, Async, AsyncApprover, ClosureTools, SkillContext,
};
use metier::policy::{Approval, ArgumentPattern, CancelToken, Permission};
use metier::trust::{ProjectIdentity, TrustStore};
use serde_json::{Value, json};

use crate::support::engine::{ENDLESS, Project, deadline, granted, kind, value};

type Answer = Box<dyn Fn(&SkillContext, &ApprovalRequest) -> Result<Approval> + Send + Sync>;

/// An approver that records what it is asked.
#[derive(Clone)]
struct Dialog {
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
    answer: Arc<Answer>,
    limit: Duration,
}

impl Dialog {
    fn new<A: Into<Approval>>(
        answer: impl Fn(&SkillContext, &ApprovalRequest) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        let answer: Answer = Box::new(move |ctx, request| answer(ctx, request).map(Into::into));
        Self { asked: Arc::default(), answer: Arc::new(answer), limit: Duration::from_mins(1) }
    }

    fn always(answer: impl Into<Approval>) -> Self {
        let answer = answer.into();
        Self::new(move |_, _| Ok(answer.clone()))
    }

    fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// The permissions and targets that were asked about.
    fn needs(&self) -> Vec<(String, Option<String>)> {
        self.asked()
            .into_iter()
            .map(|request| match request.need {
                ApprovalNeed::Permission { permission, target } => (permission.to_string(), target),
                other => panic!("asked {other:?}"),
            })
            .collect()
    }
}

impl Approver for Dialog {
    fn approve(&self, ctx: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
        self.asked.lock().unwrap().push(request.clone());
        (self.answer)(ctx, request)
    }

    fn time_limit(&self) -> Duration {
        self.limit
    }
}

const WRITES_TWICE: &str = "ctx.write('out/a.txt', 'a') ctx.write('out/b.txt', 'b') return 'written'";

#[test]
fn an_approver_is_asked_once_for_what_a_skill_lists_and_nobody_granted() {
    let project = Project::lua_with_tools("write:out", WRITES_TWICE);
    let dialog = Dialog::new(|ctx, request| {
        assert_eq!((request.run, &request.skill[..]), (ctx.run_id(), ctx.skill()));
        assert_eq!(request.qualified_name.as_deref(), ctx.qualified_name());
        Ok(true)
    });
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), "written");
    assert_eq!((project.read("out/a.txt"), project.read("out/b.txt")), ("a".into(), "b".into()));
    assert_eq!(dialog.needs(), [("write:out".into(), Some("out/a.txt".into()))]);
    let first = dialog.asked().remove(0);
    let digest = first.digest.unwrap();
    assert_eq!(digest.parse::<metier::policy::SkillDigest>().unwrap().to_string(), digest);
    assert_eq!(first.callers, Vec::<String>::new());
    // Another run, and other bytes, are another question.
    let changed = project.file(".metier/skills/x/scripts/other.lua", "return 1");
    assert_eq!(value(engine.run(Invocation::new("x").script("scripts/main.lua"))), "written");
    let second = dialog.asked().remove(1);
    assert_ne!(second.digest.unwrap(), digest);
    drop(changed);
}

#[test]
fn what_is_refused_is_denied_and_not_asked_again() {
    let script = "local function kind(f) local ok, e = pcall(f) return ok or e.kind end
        return {kind(function() ctx.write('out/a', '') end), kind(function() ctx.write('out/b', '') end),
            kind(function() ctx.write('elsewhere', '') end)}";
    let project = Project::lua_with_tools("write:out", script);
    let dialog = Dialog::always(false);
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), json!(["denied", "denied", "denied"]));
    assert_eq!(dialog.needs(), [("write:out".into(), Some("out/a".into()))]);
    assert!(!project.path("out").exists());
}

#[test]
fn nobody_is_asked_about_what_a_skill_does_not_list_or_what_was_granted() {
    for (asks, grants, script) in [
        ("", &[][..], "ctx.write('a', '')"),
        ("write:out", &[], "ctx.write('a', '')"),
        // A protected path needs a request that names it.
        ("write", &[], "ctx.write('.git/config', '')"),
        ("read", &[], "ctx.read_file('.env')"),
        ("write:out", &["write"], "ctx.write('out/a', '') error('denied in the end')"),
        ("write:../x", &[], "ctx.write('../x', '')"),
    ] {
        let project = Project::lua_with_tools(asks, script).file(".env", "A=1").file(".git/config", "");
        let dialog = Dialog::always(true);
        let engine = project.builder().approver(dialog.clone()).build().unwrap();
        let outcome = engine.run(granted(Invocation::new("x"), grants));
        assert!(outcome.result.is_err(), "{asks}: {script}");
        assert_eq!(dialog.needs(), [], "{asks}: {script}");
    }
}

#[test]
fn each_kind_of_permission_is_asked_with_what_the_call_would_reach() {
    let script = "return {ctx.tool('add', {}), ctx.secret('KEY'), ctx.skill('y'), ctx.read_file('.env')}";
    let asks = "tool:add secret:KEY skill:y read:.env";
    let project = Project::lua_with_tools(asks, script)
        .file(".env", "A=1")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 'y'");
    let dialog = Dialog::always(true);
    let fixtures =
        metier::host::Fixtures::new(r#"{"tools": {"add": 3}, "secrets": {"KEY": "s3cret"}}"#).unwrap();
    let providers = fixtures.providers().approver(dialog.clone());
    let engine = project.builder().build().unwrap();
    let run = engine.run(Invocation::new("x").providers(providers));
    assert_eq!(value(run), json!([3, "[secret:KEY]", "y", "A=1"]));
    let own = |name: &str| Some(name.to_owned());
    assert_eq!(
        dialog.needs(),
        [
            ("tool:add".to_owned(), own("add")),
            ("secret:KEY".to_owned(), own("KEY")),
            ("skill:y".to_owned(), own("y")),
            ("read:.env".to_owned(), own(".env")),
        ]
    );
    let text = serde_json::to_value(&dialog.asked()[0].need).unwrap();
    assert_eq!(text, json!({"permission": {"permission": "tool:add", "target": "add"}}));
}

#[test]
fn the_deadline_stands_still_while_an_approver_thinks_and_goes_on_afterwards() {
    let slow = Dialog::new(|_, _| {
        std::thread::sleep(Duration::from_millis(900));
        Ok(true)
    });
    let project = Project::lua_with_tools("write:out", WRITES_TWICE);
    let engine = project.builder().approver(slow.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x").limits(deadline(500)))), "written");

    let project = Project::lua_with_tools("write:out", &format!("ctx.write('out/a', '') {ENDLESS}"));
    let engine = project.builder().approver(slow).build().unwrap();
    let outcome = engine.run(Invocation::new("x").limits(deadline(500)));
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    let took = outcome.duration;
    assert!(took >= Duration::from_millis(1_400) && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_panic_an_error_and_no_answer_in_time_are_a_no() {
    let answers: [Answer; 3] = [
        Box::new(|_, _| panic!("on purpose")),
        Box::new(|_, _| Err(metier::error::SkillError::new(ErrorKind::Unavailable, "nobody is here"))),
        Box::new(|_, _| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }),
    ];
    for answer in answers {
        let project = Project::lua_with_tools("write:out", WRITES_TWICE);
        let dialog = Dialog { limit: Duration::from_millis(200), ..Dialog::new(answer) };
        let started = Instant::now();
        let outcome = project.builder().approver(dialog.clone()).build().unwrap().run(Invocation::new("x"));
        assert_eq!(kind(&outcome), ErrorKind::Denied);
        assert_eq!(outcome.result.unwrap_err().missing().unwrap().to_string(), "write:out");
        assert!(started.elapsed() < Duration::from_secs(10) && !project.path("out").exists());
        assert_eq!(dialog.asked().len(), 1);
    }
}

#[test]
fn a_cancelled_run_does_not_wait_for_its_approver() {
    let token = CancelToken::new();
    let cancel = token.clone();
    let dialog = Dialog::new(move |_, _| -> Result<bool> {
        cancel.cancel();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let project = Project::lua_with_tools("write:out", WRITES_TWICE);
    let engine = project.builder().approver(dialog).build().unwrap();
    let outcome = engine.run(Invocation::new("x").cancel(token));
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert!(outcome.duration < Duration::from_secs(10) && !project.path("out").exists());
}

#[test]
fn a_script_cannot_flood_a_person_with_questions() {
    let script = "for i = 1, 1000 do pcall(ctx.write, `out/{i}/a`, '') end
        for i = 1, 100 do pcall(ctx.tool, `t{i}`, {}) end";
    let listed: Vec<String> = (1..=100).map(|number| format!("tool:t{number}")).collect();
    let project = Project::lua_with_tools(&format!("write:out {}", listed.join(" ")), script);
    let dialog = Dialog::always(false);
    let tools = ClosureTools::new().tool("t1", "d", json!({}), |_, _| Ok(Value::Null));
    let engine = project.builder().tools(tools).approver(dialog.clone()).build().unwrap();
    engine.run(Invocation::new("x")).result.unwrap();
    assert_eq!(dialog.needs().len(), 16);
}

#[test]
fn a_callee_gets_no_more_than_each_skill_on_the_way_lists() {
    let callee = "ctx.write('out/a', 'a') return 'y'";
    for (caller_lists, is_asked) in
        [("skill:y", false), ("skill:y write:out", true), ("skill:y write:src", false)]
    {
        let project = Project::lua_with_tools(
            caller_lists,
            "local ok, e = pcall(ctx.skill, 'y') local own = pcall(ctx.write, 'out/b', 'b') return {ok, own}",
        )
        .skill("y", "allowed-tools: write:out\n")
        .file(".metier/skills/y/scripts/main.lua", callee);
        let dialog = Dialog::always(true);
        let engine = project.builder().approver(dialog.clone()).build().unwrap();
        let outcome = engine.run(granted(Invocation::new("x"), &["skill:y"]));
        assert_eq!(value(outcome), json!([is_asked, is_asked]), "{caller_lists}");
        let callers: Vec<_> =
            dialog.asked().into_iter().map(|request| (request.skill, request.callers)).collect();
        // What was approved for the callee is not approved for its caller.
        let expected = vec![("y".to_owned(), vec!["x".to_owned()]), ("x".to_owned(), vec![])];
        let expected = if is_asked { expected } else { vec![] };
        assert_eq!(callers, expected, "{caller_lists}");
    }
}

#[test]
fn an_async_approver_answers_from_the_programs_own_loop() {
    struct Ask(tokio::sync::mpsc::UnboundedSender<(Permission, tokio::sync::oneshot::Sender<bool>)>);
    impl AsyncApprover for Ask {
        async fn approve(&self, _: &SkillContext, request: &ApprovalRequest) -> Result<Approval> {
            let ApprovalNeed::Permission { permission, .. } = &request.need else { return Ok(Approval::No) };
            let (reply, answer) = tokio::sync::oneshot::channel();
            self.0.send((permission.clone(), reply)).ok();
            Ok(answer.await.unwrap_or(false).into())
        }
    }
    let project = Project::lua_with_tools("write:out", WRITES_TWICE);
    let (questions, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let engine = project.builder().approver(Async(Ask(questions))).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async {
        let mut run = std::pin::pin!(engine.run_async(Invocation::new("x")));
        loop {
            tokio::select! {
                outcome = &mut run => break outcome,
                Some((permission, reply)) = asked.recv() => reply.send(permission.to_string() == "write:out").unwrap(),
            }
        }
    });
    assert_eq!(value(outcome), "written");
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn an_external_script_has_what_was_approved_before_it_started() {
    let project = Project::shell("allowed-tools: write:out\n", "mkdir -p out && echo 1 > out/a && echo true");
    std::fs::create_dir(project.path("out")).unwrap();
    for answer in [false, true] {
        let dialog = Dialog::always(answer);
        let engine = project.builder().approver(dialog.clone()).build().unwrap();
        let outcome = engine.run(Invocation::new("x"));
        assert_eq!(outcome.result.is_ok(), answer, "{}", sentence_or_ok(&outcome));
        assert_eq!(dialog.needs(), [("write:out".to_owned(), None)]);
        assert_eq!(project.path("out/a").exists(), answer);
    }
    let denied = Dialog::always(true);
    let project = Project::shell("allowed-tools: exec:unsandboxed\n", "echo 1 > a && echo true");
    let engine = project.builder().approver(denied.clone()).build().unwrap();
    assert!(engine.run(Invocation::new("x")).result.is_err(), "no approver opens the sandbox");
    assert_eq!(denied.needs(), []);
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn sentence_or_ok(outcome: &metier::engine::Outcome) -> String {
    outcome.result.as_ref().map_or_else(|_| crate::support::engine::sentence(outcome), ToString::to_string)
}

#[test]
#[cfg(all(feature = "cli", feature = "sandboxed", target_os = "linux"))]
fn an_external_script_waits_for_its_approver_beyond_its_deadline() {
    let script = "sleep 0.2; metier ctx tool add '{}' > /dev/null && echo true";
    let project = Project::shell("allowed-tools: tool:add\n", script);
    let dialog = Dialog::new(|_, _| {
        std::thread::sleep(Duration::from_millis(3_500));
        Ok(true)
    });
    let tools = ClosureTools::new().tool("add", "d", json!({}), |_, _| Ok(json!(3)));
    let builder = project.builder().helper(env!("CARGO_BIN_EXE_metier"));
    let engine = builder.tools(tools).approver(dialog.clone()).build().unwrap();
    let outcome = engine.run(Invocation::new("x").limits(deadline(1_500)));
    assert_eq!(value(outcome), json!(true));
    assert_eq!(dialog.needs().len(), 1);
}

#[test]
fn an_approver_that_runs_a_skill_itself_waits_for_nobody() {
    let project = Project::lua_with_tools("write:out", WRITES_TWICE)
        .skill("policy", "")
        .file(".metier/skills/policy/scripts/main.lua", "return true");
    let policy = project.engine();
    let dialog = Dialog::new(move |_, _| {
        policy.run(Invocation::new("policy")).result.map(|answer| answer == json!(true))
    });
    let engine = project.builder().approver(dialog).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), "written");
}

#[test]
fn what_an_approver_does_with_the_context_of_the_run_asks_nobody() {
    let dialog = Dialog::new(|ctx, _| {
        let preview = ctx.call("read_file", vec![".env".into()]);
        assert_eq!(preview.unwrap_err().kind(), ErrorKind::Denied);
        Ok(ctx.call("read_file", vec!["a.txt".into()])? == "text")
    });
    let project = Project::lua_with_tools("write:out read:.env", WRITES_TWICE)
        .file(".env", "A=1")
        .file("a.txt", "text");
    let engine = project.builder().approver(dialog.clone()).build().unwrap();
    assert_eq!(value(engine.run(Invocation::new("x"))), "written");
    assert_eq!(dialog.asked().len(), 1);
}

#[test]
fn a_late_yes_changes_nothing() {
    let is_late = Arc::new(AtomicBool::new(false));
    let late = is_late.clone();
    let slow = Dialog::new(move |_, _| {
        std::thread::sleep(Duration::from_millis(400));
        late.store(true, Ordering::SeqCst);
        Ok(true)
    });
    let script = "local ok = pcall(ctx.write, 'out/a', '') local waits = true
        while waits do waits = not ctx.tool('late', {}) end
        return {ok, (pcall(ctx.write, 'out/a', ''))}";
    let project = Project::lua_with_tools("write:out tool:late", script);
    let tools = ClosureTools::new()
        .tool("late", "d", json!({}), move |_, _| Ok(json!(is_late.load(Ordering::SeqCst))));
    let dialog = Dialog { limit: Duration::from_millis(100), ..slow };
    let engine = project.builder().tools(tools).approver(dialog).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:late"]));
    assert_eq!(value(outcome), json!([false, false]));
}

const WRITES: &str = "ctx.write(input.path or 'out/a.txt', 'a') return 'written'";

/// A project whose skill `x` lists `write:out` and writes the file that its input names.
fn writing_project() -> Project {
    Project::lua_with_tools("write:out", WRITES)
}

#[test]
fn a_request_shows_the_arguments_the_grants_and_who_requests_it() {
    let script = "ctx.secret('KEY') ctx.write('out/a', '') return ctx.skill('y', {text = ctx.secret('KEY')})";
    let project = Project::lua_with_tools("write:out write:more secret:KEY skill:y", script)
        .skill("y", "allowed-tools: write:more\n")
        .file(".metier/skills/y/skill.yaml", "permissions: [write:more]\n")
        .file(".metier/skills/y/scripts/main.lua", "ctx.write('more/a', '') return 1");
    let dialog = Dialog::always(true);
    let fixtures = metier::host::Fixtures::new(r#"{"secrets": {"KEY": "s3cret-value"}}"#).unwrap();
    let providers = fixtures.providers().approver(dialog.clone());
    let engine = project.builder().build().unwrap();
    let invocation =
        Invocation::new("x").input(json!({"a": "s3cret-value"})).args(["one"]).providers(providers);
    assert_eq!(value(engine.run(granted(invocation, &["secret:KEY", "skill:y"]))), 1);
    let [first, second] = <[ApprovalRequest; 2]>::try_from(dialog.asked()).unwrap();
    assert_eq!(first.input, Some(json!({"a": "[secret:KEY]"})));
    assert_eq!(first.args, ["one"]);
    assert_eq!(first.project.unwrap(), project.root().canonicalize().unwrap());
    let grants: Vec<String> = first.grants.iter().map(ToString::to_string).collect();
    assert_eq!(grants, ["read", "skill:y", "secret:KEY"]);
    assert_eq!(first.requested_in, ["SKILL.md"]);
    assert_eq!((second.callers, second.requested_in), (vec!["x".into()], vec!["skill.yaml".into()]));
    assert_eq!(second.input, Some(json!({"text": "[secret:KEY]"})), "a secret of its caller");
}

#[test]
fn a_plan_is_named_as_the_one_that_requests_what_its_steps_call() {
    let plan = r#"{"steps": [{"tool": "add", "args": {}}]}"#;
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/sequence.json", plan);
    let dialog = Dialog::always(true);
    let tools = ClosureTools::new().tool("add", "d", json!({}), |_, _| Ok(json!(3)));
    let engine = project.builder().tools(tools).approver(dialog.clone()).build().unwrap();
    value(engine.run(Invocation::new("x")));
    assert_eq!(dialog.asked()[0].requested_in, ["scripts/sequence.json"]);
}

#[test]
fn everything_is_asked_in_one_question_before_anything_runs() {
    let lua = "print('it runs') ctx.write('out/a', '') return ctx.tool('add', {})";
    let asks = "allowed-tools: read exec write:out tool:add exec:unsandboxed\n";
    let shell = "echo 'it runs' >&2; mkdir -p out && echo 3 > out/a; echo 3";
    let skills: [(Project, usize); 2] = [
        (Project::new().skill("x", asks).file(".metier/skills/x/scripts/main.lua", lua), 1),
        (
            Project::shell(asks, shell).file("out/b", ""),
            usize::from(cfg!(all(feature = "sandboxed", target_os = "linux"))),
        ),
    ];
    for (project, number) in skills.into_iter().filter(|(_, number)| *number > 0) {
        for answer in [false, true] {
            let dialog = Dialog::always(answer);
            let tools = ClosureTools::new().tool("add", "d", json!({}), |_, _| Ok(json!(3)));
            let engine = project.builder().tools(tools).approver(dialog.clone()).build().unwrap();
            let outcome = engine.run(Invocation::new("x").ask_first());
            assert_eq!(outcome.result.is_ok(), answer, "{:?}", outcome.result);
            assert_eq!(project.path("out/a").exists(), answer);
            assert_eq!(dialog.asked().len(), number);
            let ApprovalNeed::Start { permissions } = &dialog.asked()[0].need else { panic!("no start") };
            let permissions: Vec<String> = permissions.iter().map(ToString::to_string).collect();
            assert_eq!(permissions, ["write:out", "tool:add"]);
            if let Err(error) = &outcome.result {
                assert_eq!((error.kind(), outcome.log.len()), (ErrorKind::Denied, 0));
                assert!(outcome.process.is_none() && error.message().contains("nothing has run"), "{error}");
                assert_eq!(error.missing().unwrap().to_string(), "write:out");
            }
            drop(engine.run(granted(Invocation::new("x").ask_first(), &["write:out", "tool:add"])));
            assert_eq!(dialog.asked().len(), number, "nothing is left to ask");
        }
    }
}

#[test]
fn a_skill_that_changes_while_it_is_asked_about_gets_no_yes_and_has_not_run() {
    for answer in [Approval::Once, Approval::Session, Approval::Always(ArgumentPattern::any())] {
        for change in ["scripts/main.lua", "SKILL.md", "scripts/added.lua"] {
            let project = writing_project();
            let (file, reply) = (project.path(&format!(".metier/skills/x/{change}")), answer.clone());
            let dialog = Dialog::new(move |_, _| {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                std::fs::write(&file, format!("{text}\n")).unwrap();
                Ok(reply.clone())
            });
            let engine = project.builder().approver(dialog.clone()).build().unwrap();
            let outcome = engine.run(Invocation::new("x").ask_first());
            assert_eq!(kind(&outcome), ErrorKind::Untrusted);
            let sentence = crate::support::engine::sentence(&outcome);
            assert!(sentence.contains("files of the skill") && sentence.contains("changed"), "{sentence}");
            assert!(!project.path("out").exists(), "{change}");
            engine.run(Invocation::new("x").ask_first());
            assert_eq!(dialog.asked().len(), 2, "nothing was remembered");
        }
    }
}

#[test]
fn a_lost_connection_is_a_no_at_the_start() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(0);
    drop(sender);
    let receiver = Mutex::new(receiver);
    let lost = Dialog::new(move |_, _| {
        let gone = |_| metier::error::SkillError::new(ErrorKind::Unavailable, "the connection is lost");
        receiver.lock().unwrap().recv().map(|()| true).map_err(gone)
    });
    let panics = Dialog::new(|_, _| -> Result<bool> { panic!("on purpose") });
    let hangs = Dialog {
        limit: Duration::from_millis(50),
        ..Dialog::new(|_, _| {
            std::thread::sleep(Duration::from_secs(5));
            Ok(true)
        })
    };
    for dialog in [lost, panics, hangs] {
        let project = Project::lua_with_tools("write:out", "print('it runs') return 1");
        let engine = project.builder().approver(dialog).build().unwrap();
        let outcome = engine.run(Invocation::new("x").ask_first());
        assert_eq!((kind(&outcome), outcome.log.len()), (ErrorKind::Denied, 0));
    }
}

#[test]
fn nobody_is_asked_for_an_engine_that_is_gone() {
    let left: Arc<Mutex<Option<SkillContext>>> = Arc::default();
    let keeper = left.clone();
    let tools = ClosureTools::new().tool("keep", "d", json!({}), move |ctx, _| {
        *keeper.lock().unwrap() = Some(ctx.clone());
        Ok(json!(null))
    });
    let project = Project::lua_with_tools("write:out tool:keep", "return ctx.tool('keep', {})");
    let dialog = Dialog::always(Approval::Session);
    let engine = project.builder().tools(tools).approver(dialog.clone()).build().unwrap();
    value(engine.run(granted(Invocation::new("x"), &["tool:keep"])));
    drop(engine);
    let ctx = left.lock().unwrap().take().unwrap();
    let error = ctx.call("write", vec!["out/a".into(), "a".into()]).unwrap_err();
    assert_eq!((error.kind(), dialog.asked().len()), (ErrorKind::Denied, 0));
    assert!(!project.path("out").exists());
}

#[test]
#[cfg(unix)]
fn a_skill_whose_changes_nobody_would_notice_gets_no_yes() {
    let project = writing_project();
    let script = project.path(".metier/skills/x/scripts/main.lua");
    // A socket has no content, so the skill has no digest.
    let _socket = std::os::unix::net::UnixListener::bind(project.path(".metier/skills/x/socket")).unwrap();
    let dialog = Dialog::new(move |_, _| {
        std::fs::write(&script, "ctx.write('out/evil', '')").unwrap();
        Ok(true)
    });
    let engine = project.builder().approver(dialog).build().unwrap();
    for invocation in [Invocation::new("x"), Invocation::new("x").ask_first()] {
        let outcome = engine.run(invocation);
        assert_eq!(kind(&outcome), ErrorKind::Untrusted);
        assert!(crate::support::engine::sentence(&outcome).contains("cannot be read completely"));
    }
    assert!(!project.path("out").exists());
}
