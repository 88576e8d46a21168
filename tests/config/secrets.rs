//! Secrets of skills: from the environment, a file or a program, read when a script asks, and shown nowhere.

use serde_json::json;

use super::Answer;
use crate::support::cli::Project;

const SECRET: &str = "s3cret-value-42xyz";

/// The skill `x`, which reads the secret `TOKEN` and returns how long it is and the secret.
fn project() -> Project {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN\n---\n";
    let script = "local token = ctx.secret('TOKEN') return {#token, token}";
    Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", script)
}

fn with_source(source: &str) -> Project {
    project().user_config(format!("skills.x.secrets.TOKEN = {source}"))
}

fn run(project: &Project, args: &[&str]) -> Answer {
    let args = [&["run", "x", "--json", "--trust"], args].concat();
    project.command(&args).env("TEST_TOKEN", SECRET).output().unwrap().into()
}

const GRANTED: [&str; 2] = ["--allow", "secret:TOKEN"];

#[test]
fn each_source_gives_the_secret_and_it_is_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    for source in [
        "{env = 'TEST_TOKEN'}".to_owned(),
        format!("{{file = '{}'}}", file.display()),
        format!("{{command = ['printf', '%s\\\\n', '{SECRET}']}}"),
        format!("{{command = ['sh', '-c', 'cat \"$0\"', '{}']}}", file.display()),
    ] {
        let source = source.replace("\\\\n", "\\n");
        let answer = run(&with_source(&source), &GRANTED);
        assert_eq!(answer.json()["value"], json!([SECRET.len(), "[secret:TOKEN]"]), "{source}: {answer:?}");
    }
}

#[test]
fn a_secret_with_a_host_is_never_read_whoever_grants_it() {
    let script = "local token = ctx.secret('TOKEN') return {#token, token == 's3cret-value-42xyz'}";
    let project = with_source("{env = 'TEST_TOKEN', host = 'api.example.com'}")
        .file(".metier/skills/x/scripts/main.lua", script);
    for grants in [GRANTED, ["--allow", "secret:TOKEN@api.example.com"]] {
        let answer = run(&project, &grants);
        assert_eq!(answer.json()["value"], json!([SECRET.len(), false]), "{answer:?}");
    }
    let answer = run(&project, &["--allow", "secret:TOKEN@other.example.com"]);
    assert_eq!(answer.json()["error"]["kind"], "unavailable", "{answer:?}");
    let answer = run(&with_source("{env = 'TEST_TOKEN', host = '*.example.com'}"), &[]);
    assert!(answer.stdout.contains("a secret is for one host"), "{answer:?}");
}

#[test]
fn an_option_with_a_host_grants_its_use_there_and_the_host() {
    let script = "local token = ctx.secret('TOKEN') return {#token, token == 's3cret-value-42xyz'}";
    let project = project().file(".metier/skills/x/scripts/main.lua", script);
    let answer = run(&project, &["--secret", "TOKEN@api.example.com=TEST_TOKEN"]);
    assert_eq!(answer.json()["value"], json!([SECRET.len(), false]), "{answer:?}");
    let answer = run(&project, &["--secret", "TOKEN=TEST_TOKEN"]);
    assert_eq!(answer.json()["value"], json!([SECRET.len(), true]), "{answer:?}");
    for option in
        ["TOKEN@", "@api.example.com", "TOKEN@https://a.example", "TOKEN@*.example.com", "TOKEN@a.example="]
    {
        let answer = run(&project, &["--secret", option]);
        assert!(answer.code == 2 && answer.stdout.contains("NAME@HOST"), "{option}: {answer:?}");
    }
}

/// The skill `x`, a program that prints its variable `TOKEN` and its length, and requests everything.
fn program_with_source(source: &str) -> Project {
    let script = "import os, sys\ntoken = os.environ.get('TOKEN', '')\nprint('length', len(token), token)\nprint(token, file=sys.stderr)\n";
    Project::new()
        .skill(".metier/skills/x")
        .file(".metier/skills/x/scripts/main.py", script)
        .user_config(format!("skills.x.secrets.TOKEN = {source}"))
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn each_source_reaches_a_program_as_a_variable_and_is_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    for source in [
        "{env = 'TEST_TOKEN'}".to_owned(),
        format!("{{file = '{}'}}", file.display()),
        format!("{{command = ['cat', '{}']}}", file.display()),
    ] {
        let project = program_with_source(&source);
        for (args, expected) in [(&GRANTED[..], "length 18 [secret:TOKEN]\n"), (&[], "length 0 \n")] {
            let answer = run(&project, args);
            assert_eq!(answer.json()["value"], json!(expected), "{source}: {answer:?}");
            assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
            let mut raw = project.command(&[&["run", "--raw", "--trust"], args, &["x"]].concat());
            let answer: Answer = raw.env("TEST_TOKEN", SECRET).output().unwrap().into();
            assert_eq!((answer.code, &*answer.stdout), (0, expected), "{source}: {answer:?}");
            assert!(!answer.stderr.contains(SECRET), "{answer:?}");
        }
        let answer = run(&project, &[&GRANTED[..], &["--sandbox", "off"]].concat());
        assert_eq!(answer.json()["value"], json!("length 18 [secret:TOKEN]\n"), "{source}: {answer:?}");
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_remembered_secret_comes_from_its_source_until_the_skill_changes() {
    let project = program_with_source("{env = 'TEST_TOKEN'}");
    let value = |args: &[&str]| {
        let args = [&["run", "x", "--json"], args].concat();
        let answer: Answer = project.command(&args).env("TEST_TOKEN", SECRET).output().unwrap().into();
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
        answer.json()["value"].clone()
    };
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(value(&[]), json!("length 0 \n"));
    let allowed = project.metier(&["allow", "x", "secret:TOKEN"]);
    assert!(allowed.code == 0 && allowed.stdout.contains("secret TOKEN"), "{allowed:?}");
    assert!(project.metier(&["show", "x"]).stdout.contains("secret:TOKEN"));
    assert_eq!(value(&[]), json!("length 18 [secret:TOKEN]\n"));
    assert_eq!(value(&["--for-model"]), json!("length 18 [secret:TOKEN]\n"));
    assert_eq!(value(&["--no-remembered"]), json!("length 0 \n"));
    let script = project.read(".metier/skills/x/scripts/main.py");
    super::write(&project.path(".metier/skills/x/scripts/main.py"), format!("{script}# changed\n"));
    assert_eq!(value(&[]), json!("length 0 \n"));
}

#[test]
fn a_secret_is_read_only_when_a_script_asks_that_has_the_permission() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("asked");
    let source = format!("{{command = ['sh', '-c', 'touch \"$0\"; echo {SECRET}', '{}']}}", mark.display());
    let project = with_source(&source);
    assert_eq!(run(&project, &[]).json()["error"]["kind"], "denied");
    for args in [&["config", "--origin"][..], &["config", "x"], &["doctor"], &["list"], &["show", "x"]] {
        project.metier(args);
    }
    project.metier(&["run", "x", "--explain", "--allow", "secret:TOKEN"]);
    assert!(!mark.exists(), "the program ran though nobody needed the secret");
    assert_eq!(run(&project, &GRANTED).json()["value"][1], "[secret:TOKEN]");
    assert!(mark.exists());
}

#[test]
fn no_error_contains_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (large, binary) = (folder.path().join("large"), folder.path().join("binary"));
    std::fs::write(&large, SECRET.repeat(10_000)).unwrap();
    std::fs::write(&binary, [SECRET.as_bytes(), b"\xff"].concat()).unwrap();
    for (source, expected) in [
        (format!("{{command = ['sh', '-c', 'echo {SECRET}; exit 3']}}"), "failed"),
        (format!("{{command = ['sh', '-c', 'yes {SECRET}']}}"), "more than 65536 bytes"),
        ("{command = ['/nowhere/tool']}".into(), "failed to start"),
        (format!("{{file = '{}'}}", large.display()), "larger than 65536 bytes"),
        (format!("{{file = '{}'}}", binary.display()), "not UTF-8"),
        ("{file = '/nowhere/token'}".into(), "failed to read"),
        ("{command = ['true']}".into(), "blank"),
    ] {
        let answer = run(&with_source(&source), &GRANTED);
        let error = answer.json()["error"].clone();
        assert_eq!(error["kind"], "unavailable", "{answer:?}");
        // The script is not told what is wrong with a path that it does not know.
        assert!(error["message"].as_str().unwrap().ends_with("the log of the run says why"), "{error}");
        assert!(answer.json()["log"].to_string().contains(expected), "{expected}: {answer:?}");
        // The program's own text has it in one of these, the answer never.
        assert!(!answer.stdout.contains(SECRET) && !answer.stderr.contains(SECRET), "{answer:?}");
    }
}

#[test]
fn a_program_of_the_project_on_path_is_passed_over() {
    use std::os::unix::fs::PermissionsExt;
    let project =
        with_source("{command = ['pass', 'show']}").file("bin/pass", "#!/bin/sh\ntouch \"$0.ran\"\necho own");
    let outside = tempfile::tempdir().unwrap();
    let tool = outside.path().join("pass");
    // What the program starts is not found in the project either.
    std::fs::write(
        &tool,
        "#!/bin/sh\ncase \"$PATH\" in */project/*) echo theirs;; *) echo s3cret-value-42xyz;; esac",
    )
    .unwrap();
    for program in [&tool, &project.path("bin/pass")] {
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |folders: &[&std::path::Path]| -> Answer {
        let system = std::env::var_os("PATH").unwrap();
        let folders = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&system));
        let mut command = project.command(&[&["run", "x", "--json", "--trust"][..], &GRANTED].concat());
        command.env("PATH", std::env::join_paths(folders).unwrap()).output().unwrap().into()
    };
    let answer = run(&[&project.path("bin"), outside.path()]);
    assert_eq!(answer.json()["value"], json!([SECRET.len(), "[secret:TOKEN]"]), "{answer:?}");
    std::fs::remove_file(&tool).unwrap();
    std::os::unix::fs::symlink(project.path("bin/pass"), &tool).unwrap();
    let answer = run(&[outside.path()]);
    assert_eq!(answer.json()["error"]["kind"], "unavailable", "{answer:?}");
    assert!(answer.json()["log"].to_string().contains("may not bring it"), "{answer:?}");
    assert!(!project.path("bin/pass.ran").exists(), "it ran");
}

#[test]
fn a_file_in_the_project_is_no_source_wherever_its_link_leads() {
    let project = project();
    let file = project.home().join("other-secret");
    super::write(&file, SECRET);
    std::os::unix::fs::symlink(&file, project.path("token")).unwrap();
    let project = {
        let path = project.path("token");
        project.user_config(format!("skills.x.secrets.TOKEN = {{file = '{}'}}", path.display()))
    };
    let answer = run(&project, &GRANTED);
    let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("cannot be read") && !message.contains("/token"), "{answer:?}");
    assert!(answer.json()["log"].to_string().contains("where scripts work"), "{answer:?}");
}

#[test]
fn a_source_that_is_none_is_refused_without_its_text() {
    for source in [
        format!("'{SECRET}'"),
        format!("{{value = '{SECRET}'}}"),
        format!("['{SECRET}']"),
        format!("{{env = 'A', file = '/{SECRET}'}}"),
    ] {
        let answer = run(&with_source(&source), &GRANTED);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.code, &error["kind"]), (2, &json!("usage")), "{answer:?}");
        assert!(!answer.stdout.contains(SECRET) && !answer.stderr.contains(SECRET), "{error}");
    }
}

#[test]
fn a_run_that_is_stopped_ends_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("alive");
    let script = "(sleep 3; touch \"$0\") & sleep 60";
    let project = with_source(&format!("{{command = ['sh', '-c', '{script}', '{}']}}", mark.display()));
    let started = std::time::Instant::now();
    let answer = run(&project, &["--allow", "secret:TOKEN", "--timeout", "500ms"]);
    assert_eq!(answer.json()["error"]["kind"], "timeout", "{answer:?}");
    assert!(started.elapsed() < std::time::Duration::from_secs(3));
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(!mark.exists(), "what it started went on");
}

#[test]
fn cases_of_a_skill_do_not_get_the_users_secrets_settings_and_grants() {
    let case = json!({"expect": {"value": ["none", "none"]}});
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN\n---\n";
    let script = "local ok, token = pcall(ctx.secret, 'TOKEN') return {ok and token or 'none', ctx.config().color or 'none'}";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", script)
        .file(".metier/skills/x/cases/none.json", case.to_string())
        .user_config("[skills.x]\nsecrets.TOKEN = {env = 'TEST_TOKEN'}\ngrants = ['secret:TOKEN']\nconfig.color = 'blue'");
    let answer: Answer = project.command(&["test", "x"]).env("TEST_TOKEN", SECRET).output().unwrap().into();
    assert!(answer.code == 0 && answer.stdout.contains("1 passed"), "{answer:?}");
}

/// The skill `x`, which writes a setting to its log, returns it in a longer text, and fails with it where it is told to.
fn setting_project(contract: &str, key: &str) -> Project {
    let script = format!(
        "local v = ctx.config('{key}') if type(v) == 'table' then v = v.token or v[1] end\n\
         print('log ' .. tostring(v))\n\
         if ctx.config('fail') == 1 then error('broke ' .. tostring(v)) end return 'a-' .. tostring(v) .. '-z'"
    );
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\n---\n")
        .file(".metier/skills/x/scripts/main.lua", script);
    if contract.is_empty() { project } else { project.file(".metier/skills/x/skill.yaml", contract) }
}

#[test]
fn a_setting_with_the_name_of_a_secret_is_one_wherever_it_comes_from() {
    let value = "tok-5ecret-99";
    let declared = |key: &str, more: &str| format!("config: {{{key}: {{description: d{more}}}, fail: d}}\n");
    let option = |key: &str| format!("{key}={value}");
    let rows: Vec<(&str, String, String, Vec<String>)> = vec![
        (
            "GITHUB_TOKEN",
            declared("GITHUB_TOKEN", ""),
            String::new(),
            vec!["--config".into(), option("GITHUB_TOKEN")],
        ),
        ("api_key", declared("api_key", ""), String::new(), vec!["--config".into(), option("api_key")]),
        ("apiKey", String::new(), String::new(), vec!["--config".into(), option("apiKey")]),
        (
            "CLIENT_SECRET",
            declared("CLIENT_SECRET", ""),
            format!("skills.x.config.CLIENT_SECRET = '{value}'"),
            vec![],
        ),
        ("password", declared("password", ""), format!("skills.x.config.password = '{value}'"), vec![]),
        ("db_password", String::new(), format!("skills.x.config.db_password = '{value}'"), vec![]),
        (
            "aws_credentials",
            declared("aws_credentials", ""),
            format!("skills.x.config.aws_credentials = ['{value}']"),
            vec![],
        ),
        ("github", declared("github", ""), format!("skills.x.config.github = {{token = '{value}'}}"), vec![]),
        ("passphrase", declared("passphrase", &format!(", default: {value}")), String::new(), vec![]),
        (
            "access_token",
            declared("access_token", ", env: TEST_VALUE"),
            String::new(),
            vec!["--allow".into(), "env:TEST_VALUE".into()],
        ),
        (
            "API_TOKEN",
            declared("API_TOKEN", ""),
            "skills.x.secrets.API_TOKEN = {env = 'TEST_VALUE'}".into(),
            vec!["--allow".into(), "secret:API_TOKEN".into()],
        ),
        (
            "database_url",
            declared("database_url", ""),
            format!("skills.x.config.database_url = 'postgres://me:{value}@db/x'"),
            vec![],
        ),
    ];
    for (key, contract, configuration, args) in rows {
        let project = setting_project(&contract, key).user_config(&configuration);
        for fail in [&[][..], &["--config", "fail=1"]] {
            for json in [&["--json"][..], &[]] {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let args = [&["run", "x", "--trust"], json, fail, &args].concat();
                let answer: Answer = project.command(&args).env("TEST_VALUE", value).output().unwrap().into();
                let shown = format!("{}{}", answer.stdout, answer.stderr);
                assert!(!shown.contains(value), "{key} {args:?}: {shown}");
                assert!(shown.contains("[secret:"), "{key} {args:?}: {shown}");
                assert_eq!(answer.code == 0, fail.is_empty(), "{key} {args:?}: {shown}");
            }
        }
    }
}

#[test]
fn a_plain_setting_is_no_secret() {
    for (key, value) in [("region", "eu"), ("width", "80"), ("max_tokens", "100"), ("use_token", "true")] {
        let project = setting_project("", key);
        let answer = project.metier(&["run", "x", "--config", &format!("{key}={value}")]);
        assert_eq!(answer.stdout, format!("a-{value}-z\n"), "{key}: {answer:?}");
    }
}

#[test]
fn a_secret_of_a_setting_needs_a_permission_and_the_skill_that_was_trusted() {
    let contract = "config: {API_TOKEN: {required: on_use}, fail: d}\n";
    let project = setting_project(contract, "API_TOKEN")
        .user_config("skills.x.secrets.API_TOKEN = {env = 'TEST_TOKEN'}");
    let refused = run(&project, &[]);
    assert_eq!(refused.json()["error"]["kind"], "denied", "{refused:?}");
    assert_eq!(refused.json()["error"]["missing"], "secret:API_TOKEN");
    let allowed = run(&project, &["--allow", "secret:API_TOKEN"]);
    assert_eq!(allowed.json()["value"], "a-[secret:API_TOKEN]-z", "{allowed:?}");
    let untrusted = project.metier(&["run", "x", "--allow", "secret:API_TOKEN"]);
    assert!(untrusted.code != 0 && untrusted.stderr.contains("the skill is not trusted"), "{untrusted:?}");
}

#[test]
fn a_value_that_is_not_used_for_lack_of_trust_is_said_to_be_set() {
    let words = "is set, but not used: the skill is not trusted";
    let script = "return ctx.config('region') or 'none'";
    let with = |contract: &str, script: &str| {
        Project::new()
            .file(
                ".metier/skills/x/SKILL.md",
                "---\nname: x\ndescription: d\nallowed-tools: secret:KEY\n---\n",
            )
            .file(".metier/skills/x/scripts/main.lua", script)
            .file(".metier/skills/x/skill.yaml", contract)
            .user_config("skills.x.config.region = 'eu'\nskills.x.secrets.KEY = {env = 'TEST_TOKEN'}\n")
    };
    let rows = [
        ("config: {region: {required: true}}\n", script),
        ("config: {region: {required: on_use}}\n", script),
        ("config: {KEY: {secret: true, required: true}}\n", "return #ctx.secret('KEY')"),
        ("config: {KEY: {secret: true}}\n", "return #ctx.secret('KEY')"),
    ];
    for (contract, script) in rows {
        let project = with(contract, script);
        let run = |args: &[&str]| {
            let args = [&["run", "x", "--allow", "secret:KEY"], args].concat();
            Answer::from(project.command(&args).env("TEST_TOKEN", SECRET).output().unwrap())
        };
        let refused = run(&[]);
        assert!(refused.code != 0 && refused.stderr.contains(words), "{contract}: {refused:?}");
        assert!(refused.stderr.contains("trust it (`metier trust`)"), "{contract}: {refused:?}");
        assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
        assert_eq!(run(&[]).code, 0, "{contract}");
    }
    let shown = with(rows[0].0, script).metier(&["show", "x"]);
    assert!(shown.stdout.contains(words), "{shown:?}");
}
