//! Tools of skills on the command line: called, shown, filtered, exported, and asked about.

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};
use crate::support::pseudo_terminal::Terminal;

const CONTRACT: &str = "
description: Knows the weather.
permissions: ['write:out']
tools:
  - name: forecast
    description: Says how the weather will be.
    inputs: {city: {type: string, required: true}}
    outputs: {type: string}
    entrypoint: {path: scripts/tools.lua, function: forecast}
    permissions: []
  - name: delete
    entrypoint: {path: scripts/tools.lua, function: delete}
    risk_level: critical
";
const SCRIPT: &str =
    "function forecast(input) return 'sun in ' .. input.city end function delete() return 'deleted' end";
const NAMES: [&str; 3] = ["weather.forecast", "project/.metier:weather.forecast", "weather@0.0.0.forecast"];

fn project() -> Project {
    let caller = format!(
        "---\nname: x\ndescription: d\nallowed-tools: {}\n---\n",
        NAMES.map(|name| format!("tool:{name}")).join(" ")
    );
    Project::new()
        .skill(".metier/skills/weather")
        .file(".metier/skills/weather/skill.yaml", CONTRACT)
        .file(".metier/skills/weather/scripts/tools.lua", SCRIPT)
        .file(".metier/skills/x/SKILL.md", caller)
        .file(".metier/skills/x/scripts/main.lua", "return ctx.tool(input.name, {city = 'Oslo'})")
}

fn run_x(project: &Project, name: &str, args: &[&str]) -> Answer {
    let input = json!({"name": name}).to_string();
    let allow = format!("tool:{name}");
    project.metier(&[&["run", "x", "--input", &input, "--allow", &allow, "--json"], args].concat())
}

#[test]
fn a_tool_is_called_with_its_input() {
    let project = project();
    let answer = project.metier(&["run", "weather", "--tool", "forecast", "--input", r#"{"city": "Oslo"}"#]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "sun in Oslo\n"), "{answer:?}");
    let wrong = project.metier(&["run", "weather", "--tool", "forecast"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("the tool forecast of weather"), "{wrong:?}");
    let unknown = project.metier(&["run", "weather", "--tool", "forcast"]);
    assert!(unknown.code == 3 && unknown.stderr.contains("did you mean `forecast`?"), "{unknown:?}");
    let none = project.metier(&["run", "weather"]);
    assert!(none.stderr.contains("call one of its tools: forecast, delete (--tool)"), "{none:?}");
    let both = project.metier(&["run", "weather", "--tool", "forecast", "--script", "scripts/tools.lua"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn show_list_and_catalog_know_the_tools() {
    let project = project();
    let page = project.metier(&["show", "weather"]);
    for line in [
        "  forecast(city: string) -> string\n    Says how the weather will be.\n    runs in lua; requests read\n",
        "  delete(…) -> any\n    runs in lua; risk critical; asks before each call; requests read, write:out\n",
    ] {
        assert!(page.stdout.contains(line), "{page:?}");
    }
    let tools = &project.metier(&["show", "weather", "--json"]).json()["tools"];
    assert_eq!(tools[0]["requested_permissions"], json!(["read"]));
    assert_eq!(
        (&tools[1]["risk_level"], &tools[1]["requires_confirmation"]),
        (&json!("critical"), &json!(true))
    );
    assert_eq!((&tools[1]["runtime"], &tools[1]["runnable"]), (&json!("lua"), &json!(true)));
    let catalog = project.metier(&["catalog", "--json", "--trust"]).json();
    let weather = catalog.as_array().unwrap().iter().find(|skill| skill["name"] == "weather").unwrap();
    assert_eq!(weather["tools"][1]["name"], "delete");
}

#[test]
fn validate_names_the_line_of_a_tool_and_the_file_that_it_lacks() {
    let project = project().file(
        ".metier/skills/weather/skill.yaml",
        "description: d\ntools:\n  - {name: a, entrypoint: scripts/gone.lua}\n  - {name: b}\n",
    );
    let answer = project.metier(&["validate", ".metier/skills/weather"]);
    assert_ne!(answer.code, 0);
    assert!(
        answer.stdout.contains("skill.yaml:4") && answer.stdout.contains("nothing runs when the tool `b`"),
        "{answer:?}"
    );
    let project = project.file(
        ".metier/skills/weather/skill.yaml",
        "description: d\ntools:\n  - {name: a, entrypoint: scripts/gone.lua}\n",
    );
    let answer = project.metier(&["validate", ".metier/skills/weather"]);
    assert!(answer.stdout.contains("scripts/gone.lua` is not a file"), "{answer:?}");
}

#[test]
fn a_filter_leaves_tools_out_by_every_name_and_warns_of_names_that_mean_none() {
    let project = project();
    for name in NAMES {
        assert_eq!(run_x(&project, name, &[]).json()["value"], "sun in Oslo", "{name}");
        for filter in [
            &["--deny-tools", "weather.forecast"][..],
            &["--tools", "weather.delete"],
            &["--tools", "weather.*", "--deny-tools", "weather.*"],
        ] {
            let answer = run_x(&project, name, filter);
            assert_eq!(
                (answer.code, &answer.json()["error"]["kind"]),
                (4, &json!("denied")),
                "{name} {filter:?}"
            );
        }
    }
    let direct = ["run", "weather", "--tool", "forecast", "--input", r#"{"city": "a"}"#];
    assert_eq!(project.metier(&[&direct[..], &["--deny-tools", "weather.forecast"]].concat()).code, 4);
    let warned = project.metier(&[&direct[..], &["--deny-tools", "weather.forcast"]].concat());
    assert_eq!(warned.code, 0);
    assert!(warned.stderr.contains("no skill offers a tool called weather.forcast"), "{warned:?}");
    let empty = project.metier(&[&direct[..], &["--tools", ""]].concat());
    assert!(empty.code == 2, "an empty list is a mistake: {empty:?}");
}

#[test]
fn what_the_configuration_denies_is_denied_by_every_name() {
    for denied in ["tool:weather.forecast", "skill:weather"] {
        let project = project().file(".metier/config.toml", format!("permissions.deny = ['{denied}']\n"));
        for name in NAMES {
            let answer = run_x(&project, name, &[]);
            assert_eq!(
                (answer.code, &answer.json()["error"]["kind"]),
                (4, &json!("denied")),
                "{denied} {name}"
            );
        }
    }
}

#[test]
fn a_call_that_needs_consent_is_refused_where_nobody_sits_and_asked_about_at_a_terminal() {
    let project = project();
    let refused = project.metier(&["run", "weather", "--tool", "delete"]);
    assert!(refused.code == 4 && refused.stderr.contains("--confirm"), "{refused:?}");
    let confirmed = project.metier(&["run", "weather", "--tool", "delete", "--confirm"]);
    assert_eq!((confirmed.code, confirmed.stdout.as_str()), (0, "deleted\n"), "{confirmed:?}");
    for (key, code, word) in [("y", 0, "deleted"), ("n", 4, "was not approved")] {
        let mut terminal = Terminal::start(&mut project.command(&[
            "run",
            "weather",
            "--tool",
            "delete",
            "--input",
            r#"{"path": "a.txt"}"#,
        ]));
        for fact in [
            "The skill weather asks whether to call a tool.\n",
            "tool      delete, risk critical\n",
            r#"input     {"path":"a.txt"}"#,
            "Call it? [y] yes, once  [n] no  [d] details: ",
        ] {
            terminal.wait_for(fact);
        }
        terminal.press(key);
        let (given, screen) = terminal.finish();
        assert!(given == code && screen.contains(word), "{key}: {given} {screen}");
    }
}

/// A script chooses the input of a tool that it calls: no part of it may be agreed to unseen.
#[test]
fn nobody_agrees_to_an_input_of_which_a_part_was_never_shown() {
    let project = project();
    let keys = "Call it? [y] yes, once  [n] no  [d] details: ";
    let start = |filler: usize| {
        let input = json!({"a": "x".repeat(filler), "paths": ["everything"], "z": "z".repeat(filler)});
        let input = input.to_string();
        Terminal::start(&mut project.command(&["run", "weather", "--tool", "delete", "--input", &input]))
    };
    let whole = |screen: &str| screen.replace("\n            | ", "");
    // What fits on the screen is there at once, and `d` shows it again.
    for filler in [60, 180, 600] {
        let mut terminal = start(filler);
        terminal.wait_for(keys);
        assert!(whole(&terminal.screen()).contains(r#""paths":["everything"]"#), "{}", terminal.screen());
        terminal.press("d");
        terminal.wait_for("input     {");
        terminal.wait_for(keys);
        assert_eq!(whole(&terminal.screen()).matches(r#""paths":["everything"]"#).count(), 2);
        terminal.press("y");
        assert_eq!(terminal.finish().0, 0);
    }
    for (filler, stops) in [(2_000, 1), (5_000, 4)] {
        let mut terminal = start(filler);
        terminal.wait_for("characters…]");
        terminal.wait_for("press d to see all of it before you agree");
        terminal.wait_for(keys);
        terminal.press("y");
        terminal.wait_for("press d to see all of it first\n");
        terminal.wait_for(keys);
        terminal.press("d");
        terminal.wait_for("[d] next page  [q] back  [n] no: ");
        terminal.press("q");
        terminal.wait_for(keys);
        terminal.press("y");
        terminal.wait_for("press d to see all of it first\n");
        terminal.press("d");
        for _ in 0..stops {
            terminal.wait_for("[d] next page  [q] back  [n] no: ");
            terminal.press("d");
        }
        terminal.wait_for("digest    ");
        terminal.wait_for(keys);
        assert!(whole(&terminal.screen()).contains(r#""everything""#));
        terminal.press("y");
        let (code, screen) = terminal.finish();
        assert!(code == 0 && screen.ends_with("deleted\n"), "{screen}");
    }
    let mut terminal = start(2_000);
    terminal.wait_for(keys);
    terminal.press("d");
    terminal.wait_for("[n] no: ");
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
}

#[test]
fn explain_says_which_tool_and_what_it_could_reach() {
    let project = project();
    let args = [
        "run",
        "weather",
        "--tool",
        "forecast",
        "--input",
        r#"{"city": "a"}"#,
        "--allow",
        "write:out",
        "--explain",
    ];
    let page = project.metier(&args);
    assert!(page.stdout.contains("forecast") && !page.stdout.contains("write:out, "), "{page:?}");
    let explained = project.metier(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((&explained["tool"], &explained["permissions"]), (&json!("forecast"), &json!(["read"])));
    let all = ["run", "weather", "--tool", "delete", "--allow", "write:out", "--explain", "--json"];
    assert_eq!(project.metier(&all).json()["permissions"], json!(["read", "write:out"]));
}

#[test]
fn an_export_for_function_calling_has_a_function_for_each_tool() {
    let project = project();
    let exported = project.metier(&["export", "weather", "--as", "function-calling"]);
    let functions: Value = serde_json::from_str(&exported.stdout).unwrap();
    let names: Vec<&str> =
        functions.as_array().unwrap().iter().map(|it| it["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["weather_forecast", "weather_delete"]);
    assert_eq!(functions[0]["function"]["parameters"]["required"], json!(["city"]));
    for lost in ["what runs when its tools are called", "a person must agree", "the risks of its tools"] {
        assert!(exported.stderr.contains(lost), "{lost}: {exported:?}");
    }
    let tools: Value =
        serde_json::from_str(&project.metier(&["export", "weather", "--as", "mcp"]).stdout).unwrap();
    assert_eq!(
        (&tools[0]["outputSchema"]["type"], &tools[1]["annotations"]["destructiveHint"]),
        (&json!("string"), &json!(true))
    );
}
