//! `--env`, `--env-file` and secrets as variables: what external scripts are given of the environment, and what nobody sees of it.

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};

/// The same script in each language: it prints the variable `API_KEY`, or fails as its language does.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("python3", "main.py", "import os\nprint(os.environ['API_KEY'])\n"),
    ("bash", "main.sh", "set -u\necho \"$API_KEY\"\n"),
    (
        "node",
        "main.js",
        "if (!process.env.API_KEY) throw new Error('process.env.API_KEY is not set');\nconsole.log(process.env.API_KEY);\n",
    ),
];

fn project(file: &str, script: &str) -> Project {
    Project::new().skill(".metier/skills/x").file(&format!(".metier/skills/x/scripts/{file}"), script)
}

/// A project whose skill prints all variables.
fn printing() -> Project {
    project("main.sh", "env | sort")
}

fn with(project: &Project, variables: &[(&str, &str)], args: &[&str]) -> Answer {
    project.command(args).envs(variables.iter().copied()).output().unwrap().into()
}

fn for_each_language(test: impl Fn(&Project, &str)) {
    for (command, file, script) in LANGUAGES {
        if find_program(command).is_none() {
            not_run("variables of a script", &format!("{command} is not installed"));
            continue;
        }
        test(&project(file, script), command);
    }
}

/// As the programs themselves quote them.
#[test]
fn no_quoting_of_a_shell_or_a_language_shows_a_secret() {
    let secrets = [
        ("S1", "pa$$w`rd12"),
        ("S2", "p&ss w(x)rd!"),
        ("S3", "pässwörd99"),
        ("S4", "it's p!ss(w)/xrd"),
        ("S5", "q\"ss<o>te\trd&12"),
    ];
    for (program, script) in [
        (
            "bash",
            "for v in S1 S2 S3 S4 S5; do printf '%q\\n' \"${!v}\"; declare -p $v; echo \"${!v@Q}\"; done
            export -p | grep ' S[1-5]='; set | grep '^S[1-5]='; exec 2>&1; set -x; : \"$S1\" \"$S2\" \"$S3\" \"$S4\" \"$S5\"; set +x
            LC_ALL=C bash -c 'printf \"%q\\n\" \"$S3\" \"$S5\"; declare -p S3 S5'; LC_ALL=C /usr/bin/printf '%q\\n' \"$S3\" \"$S5\"",
        ),
        (
            "python3",
            "import os, urllib.parse as u, html, json, shlex
for v in 'S1 S2 S3 S4 S5'.split():
    s = os.environ[v]
    print(repr(s), ascii(s), s.encode(), shlex.quote(s), u.quote(s), u.quote(s, ''), u.quote_plus(s), html.escape(s), json.dumps(s),
          s.encode('ascii', 'xmlcharrefreplace').decode(), s.encode('ascii', 'backslashreplace').decode())",
        ),
        (
            "node",
            "for (const v of 'S1 S2 S3 S4 S5'.split(' ')) { const s = process.env[v], a = new URL('http://h/'); a.password = s
            console.log(encodeURIComponent(s), encodeURI(s), JSON.stringify(s), new URLSearchParams({s}).toString(), escape(s),
                require('util').inspect(s), a.href, new URL('http://h/' + s).href) }",
        ),
        (
            "perl",
            "use Data::Dumper; $Data::Dumper::Useqq = 1; print Dumper([@ENV{qw(S1 S2 S3 S4 S5)}])",
        ),
    ] {
        if find_program(program).is_none() {
            not_run("the quoting of a language", &format!("{program} is not installed"));
            continue;
        }
        let option = if ["node", "perl"].contains(&program) { "-e" } else { "-c" };
        let given: Vec<&str> = secrets.iter().flat_map(|(name, _)| ["--secret", *name]).collect();
        for json in [&["exec"][..], &["exec", "--json"]] {
            let args = [json, &given, &["--", program, option, script]].concat();
            let answer = with(&Project::new(), &secrets, &args);
            assert_eq!(answer.code, 0, "{program}: {answer:?}");
            let words: &[&str] = if json.len() == 1 { &["rd", "ss"] } else { &[] };
            for word in words.iter().chain(&["rd12", "x)rd", "rd99", "/xrd", "/x\\rd", "rd&12"]) {
                assert!(!answer.stdout.contains(word), "{program} {word}: {}", answer.stdout);
            }
        }
    }
}

#[test]
fn a_password_in_an_address_or_a_connection_is_hidden_alone_as_well() {
    for (value, shown) in [
        ("https://hunter2hunter2@host/x.git", "hunter2hunter2"),
        ("jdbc:postgresql://db/x?user=me&password=hunter2hunter2", "hunter2hunter2"),
        ("Server=db;User Id=me;Password=hunter2hunter2;", "hunter2hunter2"),
        ("postgres://me:hunter2%2Fhunter2@db/x", "hunter2/hunter2"),
    ] {
        let script = format!("echo \"$TARGET\"; echo '{shown}'; echo plain");
        let args = ["exec", "--env", "TARGET", "--", "bash", "-c", script.as_str()];
        let answer = with(&Project::new(), &[("TARGET", value)], &args);
        assert_eq!(answer.stdout, "[secret:TARGET]\n[secret:TARGET]\nplain\n", "{value}: {answer:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_file_of_variables_in_the_project_is_no_link_out_of_it() {
    let project = printing();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("env");
    std::fs::write(&target, "HIDDEN=hunter2-hunter2").unwrap();
    std::os::unix::fs::symlink(&target, project.path(".env")).unwrap();
    let refused = project.metier(&["run", "x", "--env-file", ".env"]);
    assert!(refused.code == 2 && refused.stderr.contains("leads out of the project"), "{refused:?}");
    let named = project.metier(&["run", "x", "--env-file", target.to_str().unwrap()]);
    assert!(named.stdout.contains("HIDDEN=[secret:HIDDEN]"), "{named:?}");
}

#[test]
fn a_script_has_a_variable_only_if_somebody_gives_it() {
    for_each_language(|project, language| {
        let secret = [("API_KEY", "hunter2-hunter2")];
        let denied = with(project, &secret, &["run", "x"]);
        assert!(denied.code != 0 && !denied.stderr.contains("hunter2"), "{language}: {denied:?}");
        let help = "the environment variable API_KEY, which is set here and was not passed; if it should have it, run with --env API_KEY";
        assert!(denied.stderr.contains(help), "{language}: {denied:?}");
        for given in [
            &["--env", "API_KEY"][..],
            &["--allow", "env:API_KEY"],
            &["--secret", "API_KEY"],
            &["--env", "API_KEY=hunter2-hunter2"],
        ] {
            let answer = with(project, &secret, &[&["run", "x"], given].concat());
            assert_eq!(answer.stdout, "[secret:API_KEY]\n", "{language} {given:?}: {answer:?}");
        }
    });
}

#[test]
fn the_value_that_arrives_is_the_one_that_was_given() {
    let project = project("main.sh", "printf '%s|' \"$ODD\" \"$PLAIN\" \"$EMPTY\" \"${UNSET-unset}\"");
    let args = ["run", "x", "--env", "ODD=a b'\"$x\n\\", "--env", "PLAIN=ü ==", "--env", "EMPTY="];
    let answer = project.metier(&args);
    assert_eq!(answer.stdout, "a b'\"$x\n\\|ü ==||unset|\n", "{answer:?}");
}

#[test]
fn a_skill_that_lists_permissions_is_given_what_it_lists() {
    for (listed, is_given) in [("allowed-tools: env:REGION\n", true), ("allowed-tools: env:OTHER\n", false)] {
        let skill = format!("---\nname: x\ndescription: d\n{listed}---\n");
        let project = printing().file(".metier/skills/x/SKILL.md", skill);
        let answer = project.metier(&["run", "x", "--env", "REGION=north"]);
        assert_eq!(answer.stdout.contains("REGION=north"), is_given, "{listed}: {answer:?}");
    }
    for contract in [
        "env: [REGION]",
        "env:\n- name: REGION\n  required: true",
        "env: {REGION: the region}",
        "permissions: [env:REGION]",
    ] {
        let contract = format!("{contract}\npermissions: []\n").replace("]\npermissions: []", "]");
        let project = printing().file(".metier/skills/x/skill.yaml", contract.clone());
        let answer = project.metier(&["run", "x", "--env", "REGION=north", "--env", "OTHER=south"]);
        assert!(answer.stdout.contains("REGION=north"), "{contract}: {answer:?}");
        let shown = project.metier(&["show", "x"]).stdout;
        assert!(shown.contains("env:REGION"), "{contract}: {shown}");
    }
    let project = printing().file(".metier/skills/x/skill.yaml", "env: [REGION]\npermissions: []\n");
    let answer = project.metier(&["run", "x", "--env", "REGION=north", "--env", "OTHER=south"]);
    assert!(!answer.stdout.contains("OTHER"), "{answer:?}");
}

#[test]
fn names_that_change_what_runs_are_refused_wherever_they_are_written() {
    let names = [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "IFS",
        "SHELLOPTS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "PERL5OPT",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "GLIBC_TUNABLES",
        "HOME",
        "XDG_CONFIG_HOME",
        "METIER_SKILL_DIR",
        "BASH_FUNC_ls",
        "Npm_config_script_shell",
        "nPm_CONFIG_node_options",
        "yarn_rc_filename",
        "CONFIG_SITE",
        "RM",
        "FFLAGS",
        "BORG_PASSCOMMAND",
        "NAPI_RS_NATIVE_LIBRARY_PATH",
    ];
    let project = printing().file("vars", "").file(".metier/skills/x/skill.yaml", "");
    for name in names {
        let given = format!("{name}=planted");
        for args in [&["run", "x", "--env", &given][..], &["run", "x", "--env-file", "vars"]] {
            std::fs::write(project.path("vars"), format!("A=1\n{given}\n")).unwrap();
            let answer = project.metier(args);
            assert!(answer.code == 2 && answer.stderr.contains("no run is given it"), "{args:?}: {answer:?}");
            assert!(!answer.stderr.contains("planted"), "{answer:?}");
        }
        let contract = format!("permissions: [env:{name}]\nenv: [{name}]\n");
        std::fs::write(project.path(".metier/skills/x/skill.yaml"), contract).unwrap();
        let allowed = format!("env:{name}");
        let answer = with(&project, &[(name, "planted")], &["run", "x", "--allow", &allowed]);
        // A loader that is told to load what is not there says so itself.
        assert!(!answer.stdout.contains("planted"), "{answer:?}");
    }
}

#[test]
fn a_variable_that_cannot_be_given_is_reported_and_never_its_value() {
    let project = printing();
    for (option, words) in [
        ("NOT_SET_ANYWHERE", "it is not set here"),
        ("1A=hunter2", "begins with no digit"),
        ("=hunter2", "write NAME or NAME=VALUE"),
        ("A B=hunter2", "letters, digits"),
    ] {
        let answer = project.metier(&["run", "x", "--env", option]);
        assert!(answer.code == 2 && answer.stderr.contains(words), "{option}: {answer:?}");
        assert!(!answer.stderr.contains("hunter2"), "{answer:?}");
    }
    let answer = project.metier(&["run", "x", "--secret", "API_KEY=hunter2-hunter2"]);
    assert!(answer.code == 2 && !format!("{answer:?}").contains("hunter2"), "{answer:?}");
    let answer = project.metier(&["run", "x", "--json", "--secret", "API_KEY=hunter2-hunter2"]);
    assert!(answer.code == 2 && !format!("{answer:?}").contains("hunter2"), "{answer:?}");
    let long = format!("A={}", "x".repeat(65_537));
    assert!(project.metier(&["run", "x", "--env", &long]).stderr.contains("larger than 65536 bytes"));
    let many: Vec<String> = (0..513).map(|number| format!("A{number}=1")).collect();
    let args: Vec<&str> =
        ["run", "x"].into_iter().chain(many.iter().flat_map(|one| ["--env", one])).collect();
    assert!(project.metier(&args).stderr.contains("at most 512"));
}

#[test]
fn a_secret_value_is_in_nothing_that_a_run_says() {
    let script = "import os, sys, time\nkey = os.environ['API_KEY']\n\
                  for letter in 'out ' + key + '\\n':\n    sys.stdout.write(letter); sys.stdout.flush()\n\
                  sys.stderr.write('err ' + key + '\\n')\nfrom metier import ctx\nctx.log('info', 'log ' + key)\n\
                  raise Exception('failed with ' + key)\n";
    if find_program("python3").is_none() {
        return not_run("redaction of variables", "python3 is not installed");
    }
    let project =
        project("main.py", script).file("vars", "API_KEY='hunter2-hunter2'\nREGION=north-west\nDEBUG=1\n");
    for args in [&["--env", "API_KEY=hunter2-hunter2"][..], &["--env-file", "vars"], &["--secret", "API_KEY"]]
    {
        for json in [&[][..], &["--json"]] {
            let all = [&["run", "x"], args, json].concat();
            let answer = with(&project, &[("API_KEY", "hunter2-hunter2")], &all);
            let said = format!("{answer:?}");
            assert!(answer.code != 0 && !said.contains("hunter2"), "{args:?}: {said}");
            for what in ["out", "err", "failed with"] {
                assert!(said.contains(&format!("{what} [secret:API_KEY]")), "{args:?} {what}: {said}");
            }
        }
    }
    let project = printing().file("vars", "REGION=north-west\nDEBUG=1\nURL=x\n");
    let printed =
        project.metier(&["run", "x", "--env-file", "vars", "--env", "URL=redis://me:hunter2@host/1"]).stdout;
    assert!(printed.contains("REGION=[secret:REGION]\n") && printed.contains("DEBUG=1\n"), "{printed}");
    assert!(printed.contains("URL=[secret:URL]\n"), "{printed}");
}

#[test]
fn a_remembered_variable_comes_from_the_environment_of_the_command() {
    let project = printing();
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    let allowed = project.metier(&["allow", "x", "env:API_KEY", "env:REGION"]);
    assert!(allowed.stdout.contains("be given the environment variable REGION"), "{allowed:?}");
    assert!(project.metier(&["show", "x"]).stdout.contains("env:API_KEY"));
    let variables = [("API_KEY", "hunter2-hunter2"), ("REGION", "north"), ("OTHER", "south")];
    let answer = with(&project, &variables, &["run", "x", "--for-model"]);
    assert!(answer.stdout.contains("API_KEY=[secret:API_KEY]\n"), "{answer:?}");
    assert!(answer.stdout.contains("REGION=north") && !answer.stdout.contains("OTHER"), "{answer:?}");
    let without = with(&project, &variables, &["run", "x", "--no-remembered"]);
    assert!(!without.stdout.contains("REGION"), "{without:?}");
    std::fs::write(project.path(".metier/skills/x/scripts/main.sh"), "env | sort # changed").unwrap();
    let changed = with(&project, &variables, &["run", "x"]);
    assert!(changed.code == 0 && !changed.stdout.contains("REGION"), "{changed:?}");
}

#[test]
fn a_skill_asks_for_variables_in_its_metadata() {
    let given = ["--env", "REGION=north", "--env", "API_KEY=hunter2-hunter2", "--env", "OTHER=south"];
    for metadata in [
        "{env: [REGION, API_KEY]}",
        "{env: 'REGION, API_KEY'}",
        "{env: {REGION: the region, API_KEY: the key}}",
        "{env: [{name: REGION}, {name: API_KEY}]}",
        "{requires: {env: [REGION]}, primaryEnv: API_KEY}",
        "{\"openclaw\": {\"requires\": {\"env\": [\"REGION\"], \"bins\": [\"curl\"]}, \"primaryEnv\": \"API_KEY\"}}",
        "{env: [REGION, API_KEY, LD_PRELOAD, PATH, production]}",
    ] {
        // A skill that lists permissions has no others, and one that lists none may request everything.
        for (tools, shown) in [("allowed-tools: env:MODE\n", "read, env:MODE, "), ("", "everything, ")] {
            let head = format!("---\nname: x\ndescription: d\n{tools}metadata: {metadata}\n---\n");
            let project = printing().file(".metier/skills/x/SKILL.md", head);
            let answer = project.metier(&[&["run", "x"][..], &given].concat());
            assert!(answer.stdout.contains("REGION=north\n"), "{metadata}: {answer:?}");
            assert!(answer.stdout.contains("API_KEY=[secret:API_KEY]\n"), "{metadata}: {answer:?}");
            assert_eq!(answer.stdout.contains("OTHER"), tools.is_empty(), "{metadata}: {answer:?}");
            let page = project.metier(&["show", "x"]).stdout;
            let requested = page.lines().find(|line| line.contains("env:REGION")).unwrap_or(&page);
            assert!(requested.contains(shown) && requested.contains("env:API_KEY"), "{metadata}: {page}");
            assert!(!page.contains("env:LD_PRELOAD") && !page.contains("env:production"), "{page}");
            // What it asks for it does not have.
            let without = with(&project, &[("REGION", "north")], &["run", "x"]);
            assert!(!without.stdout.contains("REGION"), "{without:?}");
        }
    }
}

#[test]
fn short_and_common_values_of_a_file_are_replaced_only_under_names_of_secrets() {
    let values = "A=abc\nB=abcd\nC=true\nD=FALSE\nE=falsey\nMY_TOKEN=abx\nMY_PASS=True\n";
    let project = printing().file("vars", values);
    let answer = project.metier(&["run", "x", "--env-file", "vars"]);
    let names = ["A=", "B=", "C=", "D=", "E=", "MY_"];
    let lines = answer.stdout.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    let expected = [
        "A=abc",
        "B=[secret:B]",
        "C=true",
        "D=FALSE",
        "E=[secret:E]",
        "MY_PASS=[secret:MY_PASS]",
        "MY_TOKEN=[secret:MY_TOKEN]",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{answer:?}");
}

#[test]
fn a_secret_with_a_name_that_no_run_is_given_is_refused_by_name() {
    let project = project("main.sh", "touch ran; env");
    let value = [("VALUE", "hunter2-hunter2")];
    for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "GIT_DIR", "PYTHONPATH", "NODE_OPTIONS", "HOME"] {
        let secret = format!("{name}=VALUE");
        for command in [
            &["run", "x", "--allow", "write", "--secret", &secret][..],
            &["run", "x", "--allow", "write", "--json", "--secret", &secret],
            &["run", "x", "--allow", "write", "--sandbox", "off", "--secret", &secret],
            &["run", "--raw", "--allow", "write", "--secret", &secret, "x"],
            &["exec", "--allow", "write", "--secret", &secret, "--", "sh", "-c", "touch ran; env"],
        ] {
            let answer = with(&project, &value, command);
            let said = format!("{}{}", answer.stdout, answer.stderr);
            let sentence = format!("the secret {name} cannot be an environment variable: {name} ");
            let is_refused = said.contains(&sentence) && said.contains("no run is given it");
            assert!(is_refused && !said.contains("hunter2"), "{command:?}: {answer:?}");
            assert!(answer.code != 0 && !project.path("ran").exists(), "{command:?}: {answer:?}");
        }
    }
    // A skill that lists such a secret reads it in another way.
    let head = "---\nname: x\ndescription: d\nallowed-tools: secret:GIT_TOKEN\n---\n";
    let script =
        "import os\nfrom metier import ctx\nprint(len(ctx.secret('GIT_TOKEN')), 'GIT_TOKEN' in os.environ)\n";
    let files = [("main.py", script, "15 False"), ("main.lua", "return #ctx.secret('GIT_TOKEN')", "15")];
    for (file, script, expected) in files {
        let project = self::project(file, script).file(".metier/skills/x/SKILL.md", head);
        let answer = with(&project, &value, &["run", "x", "--secret", "GIT_TOKEN=VALUE"]);
        assert_eq!(answer.stdout.trim(), expected, "{answer:?}");
    }
}

/// The address is one of the network that the script has for itself.
#[test]
fn a_remembered_host_is_known_in_the_network_of_the_script() {
    if find_program("python3").is_none() {
        return not_run("a remembered host", "python3 is not installed");
    }
    let diagnosis = Project::new().metier(&["doctor", "--json"]).json();
    let level = &diagnosis["sandbox"]["strongest"]["level"];
    if level != "namespaces" {
        return not_run("a remembered host", &format!("the strongest sandbox level here is {level}"));
    }
    let script = "import socket\nfor name in ['api.example.com', 'other.example.com']:\n    try: print(name, socket.gethostbyname(name))\n    except OSError: print(name, 'unknown')\n";
    let project = project("main.py", script);
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    assert_eq!(project.metier(&["allow", "x", "net:api.example.com"]).code, 0);
    let answer = project.metier(&["run", "x", "--for-model"]);
    assert!(answer.stdout.contains("api.example.com 198.18."), "{answer:?}");
    assert!(answer.stdout.contains("other.example.com unknown"), "{answer:?}");
    let forgotten = project.metier(&["run", "x", "--no-remembered"]);
    assert!(forgotten.stdout.contains("api.example.com unknown"), "{forgotten:?}");
}

#[test]
fn an_explanation_names_the_variables_and_reads_no_value() {
    let args = ["run", "x", "--explain", "--env", "API_KEY=hunter2-hunter2", "--secret", "OTHER_KEY"];
    let answer = with(&printing(), &[("OTHER_KEY", "hunter3-hunter3")], &args);
    assert!(answer.stdout.contains("API_KEY") && answer.stdout.contains("OTHER_KEY"), "{answer:?}");
    assert!(!answer.stdout.contains("hunter"), "{answer:?}");
}

#[test]
fn without_a_sandbox_variables_are_given_in_the_same_way() {
    let args = ["run", "x", "--sandbox", "off", "--json", "--env", "API_KEY=hunter2-hunter2"];
    let answer = with(&printing(), &[("OTHER", "south")], &args).json();
    let value = answer["value"].as_str().unwrap_or_default();
    assert!(value.contains("API_KEY=[secret:API_KEY]") && !value.contains("OTHER"), "{answer}");
    assert_ne!(answer["grants"], Value::Null);
    assert!(answer["grants"].to_string().contains(&json!("env:API_KEY").to_string()), "{answer}");
}
