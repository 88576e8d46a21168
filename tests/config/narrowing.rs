//! For every key of the table: what the file of a project may set, and what it may not.

use metier::config::{KEYS, ProjectRule};
use serde_json::{Value, json};

use super::refused;
use crate::support::cli::Project;

/// A key, what the user says, what a project may set then, and what it may not.
struct Row {
    key: String,
    user: String,
    narrower: Option<&'static str>,
    wider: Vec<&'static str>,
}

fn row(key: &str, user: &str, narrower: Option<&'static str>, wider: &[&'static str]) -> Row {
    Row { key: key.to_owned(), user: user.to_owned(), narrower, wider: wider.to_vec() }
}

/// The limits: the user's value, one below, one above, and one above the default if there is one.
const LIMITS: [(&str, &str, &str, &str, Option<&str>); 8] = [
    ("state_size", "'64MB'", "'32MB'", "'65MB'", Some("'257MB'")),
    ("timeout", "'10s'", "'5s'", "'10001ms'", Some("'30001ms'")),
    ("memory", "'64MB'", "'32MB'", "'65MB'", Some("'3GB'")),
    ("cpu", "'10s'", "'5s'", "'11s'", None),
    ("output", "'1MB'", "'512KB'", "'2MB'", Some("'9MB'")),
    ("file_size", "'10MB'", "'5MB'", "'11MB'", Some("'257MB'")),
    ("open_files", "100", "50", "101", Some("513")),
    ("operations", "1000", "500", "1001", Some("'11m'")),
];

fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("product", "", None, &["'other'", "'metier'", "'../x'"]),
        row("roots", "", None, &["['/']", "['~/skills']", "['../outside']", "['.']", "[]"]),
        row("compat", "", None, &["true", "false"]),
        row("json", "", None, &["true", "false"]),
        row("no_input", "", Some("true"), &["false"]),
        row("limits.on_output", "", None, &["'truncate'"]),
        row("limits.on_output", "limits.on_output = 'truncate'", Some("'kill'"), &[]),
        row("sandbox.mode", "", Some("'required'"), &["'best-effort'", "'off'"]),
        row("sandbox.mode", "sandbox.mode = 'best-effort'", Some("'required'"), &["'off'"]),
        row("sandbox.level", "", Some("'namespaces'"), &["'landlock'", "'landlock-unscoped'"]),
        row("sandbox.level", "sandbox.level = 'landlock'", Some("'namespaces'"), &["'landlock-unscoped'"]),
        row("execution", "", Some("'worker'"), &[]),
        row("execution", "execution = 'worker'", Some("'worker'"), &["'in-process'"]),
        row("runtimes.disabled", "runtimes.disabled = ['rhai']", Some("['wasm']"), &[]),
        row("permissions.deny", "permissions.deny = ['net']", Some("['sample']"), &["['read']", "['exec']"]),
        row("trust.remembered", "", Some("false"), &["true"]),
        row("trust.remembered", "trust.remembered = false", Some("false"), &["true"]),
        row("audit.enabled", "", Some("true"), &["false"]),
        row("audit.enabled", "audit.enabled = true", Some("true"), &["false"]),
        row("audit.required", "", Some("true"), &["false"]),
        row("undo", "", Some("true"), &["false"]),
        row("undo", "undo = true", Some("true"), &["false"]),
        row("trust.locked", "", Some("true"), &["false"]),
        row("trust.locked", "trust.locked = true", Some("true"), &["false"]),
        row("autonomy", "", Some("0"), &[]),
        row("autonomy", "autonomy = 70", Some("60"), &["71", "100", "101", "'high'"]),
        row("sanitize", "", None, &["'curia'"]),
        row("max_runs", "", Some("3"), &[]),
        row("max_runs", "max_runs = 3", Some("2"), &["4"]),
        row("skills.x.enabled", "", Some("false"), &["true"]),
        row("skills.x.enabled", "skills.x.enabled = false", Some("false"), &["true"]),
        row("skills.x.sandbox.mode", "sandbox.mode = 'best-effort'", Some("'required'"), &["'off'"]),
        row("skills.x.sandbox.mode", "skills.x.sandbox.mode = 'best-effort'", Some("'required'"), &["'off'"]),
        row("skills.x.sandbox.mode", "", Some("'required'"), &["'best-effort'", "'off'"]),
        row("skills.x.deny", "skills.x.deny = ['net']", Some("['sample']"), &["['read']"]),
        row("skills.x.grants", "", None, &["['write']", "['net:example.com']", "[]"]),
        row("skills.x.script", "", None, &["'scripts/main.lua'"]),
        row("skills.x.config.color", "skills.x.config.color = 'blue'", None, &["'red'", "'blue'"]),
        row(
            "skills.x.secrets.TOKEN",
            "",
            None,
            &["{env = 'HOME'}", "{file = '/etc/passwd'}", "{command = ['id']}"],
        ),
    ];
    for (limit, own, lower, higher, above_default) in LIMITS {
        let general = format!("limits.{limit}");
        let of_skill = format!("skills.x.limits.{limit}");
        for key in [&general, &of_skill] {
            rows.push(row(key, &format!("{general} = {own}"), Some(lower), &[higher]));
            rows.push(row(key, &format!("{general} = {own}"), Some(own_literal(own)), &[]));
            rows.push(row(key, "", Some(lower), above_default.as_slice()));
        }
        rows.push(row(&of_skill, &format!("{of_skill} = {own}"), Some(lower), &[higher]));
    }
    rows
}

/// The value of the user itself, which widens nothing.
fn own_literal(own: &'static str) -> &'static str {
    own
}

/// The name in the table.
fn table_name(key: &str) -> String {
    let words: Vec<&str> = key.split('.').collect();
    match words.as_slice() {
        ["skills", _, section @ ("config" | "secrets"), _] => format!("skills.NAME.{section}.ENTRY"),
        ["skills", _, rest @ ..] => format!("skills.NAME.{}", rest.join(".")),
        _ => key.to_owned(),
    }
}

#[test]
fn the_rows_cover_every_key() {
    let rows = rows();
    for key in KEYS {
        let of_key: Vec<&Row> = rows.iter().filter(|row| table_name(&row.key) == key.name).collect();
        let (can_narrow, can_widen) = match key.project {
            ProjectRule::Never => (false, true),
            // Whatever it adds, it adds to what is refused.
            ProjectRule::Add => (true, false),
            _ => (true, true),
        };
        assert_eq!(of_key.iter().any(|row| row.narrower.is_some()), can_narrow, "{}", key.name);
        assert!(!can_widen || of_key.iter().any(|row| !row.wider.is_empty()), "{}", key.name);
    }
    assert!(rows.iter().all(|row| KEYS.iter().any(|key| key.name == table_name(&row.key))));
}

#[test]
fn a_narrower_value_of_a_project_counts() {
    for row in rows() {
        let Some(narrower) = row.narrower else { continue };
        let project = Project::with_marker_skill()
            .user_config(&row.user)
            .project_config(format!("\n{} = {narrower}\n", row.key));
        let value = project.effective(&row.key);
        let origins = value["origins"].as_array().unwrap();
        let is_named =
            |origin: &Value| *origin == json!({"kind": "project", "file": ".metier/config.toml", "line": 2});
        // A value for all skills that is the same counts as well.
        let is_same = row.user.ends_with(&format!("= {narrower}"));
        assert!(origins.iter().any(is_named) || is_same, "{} = {narrower}: {value}", row.key);
        if origins.len() > 1 {
            assert_eq!(value["value"].as_array().unwrap().len(), 2, "both count: {value}");
        }
    }
}

#[test]
fn a_wider_value_of_a_project_is_refused_with_its_line_and_nothing_runs() {
    for row in rows() {
        for wider in &row.wider {
            let project = Project::with_marker_skill()
                .user_config(&row.user)
                .project_config(format!("# One line above.\n{} = {wider}\n", row.key));
            refused(&project, ".metier/config.toml:2:", &format!("`{}`", row.key));
        }
    }
}

#[test]
fn without_a_configuration_that_is_refused_the_skill_of_these_tests_runs() {
    let project = Project::with_marker_skill().project_config("limits.timeout = '29s'");
    assert_eq!((project.run_x(&[]).code, project.path(super::MARKER).exists()), (0, true));
}

#[test]
fn words_for_trust_grants_and_the_environment_are_refused_wherever_and_however_they_are_written() {
    for text in [
        "[trust]\nskills = ['x']",
        "trust = true",
        "trust.folder = true",
        "[TRUST]\nfolder = true",
        "grants = ['write']",
        "[Grants]\nx = ['write']",
        "allow = ['write']",
        "env.PATH = '/tmp'",
        "[environment]\nHOME = '/tmp'",
        "secrets.TOKEN = {command = ['id']}",
        "[[grants]]\nname = 'x'",
        "[skills.x]\ngrants = ['write']",
        "skills = {x = {grants = ['write']}}",
        "[skills.x.secrets]\nTOKEN = {env = 'HOME'}",
        "skills.'x'.\"grants\" = ['write']",
        "\"gr\\u0061nts\" = ['write']",
    ] {
        refused(&Project::with_marker_skill().project_config(text), ".metier/config.toml:", "");
    }
}

#[test]
fn a_key_in_other_case_has_no_effect_and_is_reported() {
    for (text, meant) in [
        ("Product = 'other'", "product"),
        ("[Limits]\ntimeout = '90s'", "limits"),
        ("limits.Timeout = '90s'", "limits.timeout"),
        ("[skills.x]\nGrants = ['write']", "skills.x.grants"),
        ("[skills.x]\nenabled_ = true", "skills.x.enabled"),
    ] {
        let project = Project::with_marker_skill().project_config(text);
        let answer = project.run_x(&[]);
        assert!(answer.code == 0 && answer.stderr.contains("unknown key"), "{answer:?}");
        assert!(answer.stderr.contains(&format!("did you mean `{meant}`?")), "{meant}: {answer:?}");
        assert_eq!(answer.json()["limits"]["timeout_ms"], 30_000);
    }
}

/// What a run may do with the file of a project is never more than without it, whatever the user says and grants: the effective
/// permissions, the limits, the sandbox, and whether it runs at all.
#[test]
fn no_value_of_a_project_gives_a_run_more() {
    let user = "skills.x.grants = ['write:out', 'net:example.com']\nskills.x.config.color = 'blue'\n";
    let args = [
        "run",
        "x",
        "--explain",
        "--json",
        "--trust",
        "--allow",
        "write:out",
        "--allow",
        "net",
        "--allow",
        "tool:a",
    ];
    let explained = |project: &Project| project.metier(&args).json();
    let base = explained(&Project::with_marker_skill().user_config(user));
    let permissions = |value: &Value| -> Vec<String> {
        value["permissions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect()
    };
    let mut changed = 0;
    let denials = [
        "'write:out/.git'",
        "'write:.'",
        "'net:example.com'",
        "'net'",
        "'tool'",
        "'skill'",
        "'secret:A'",
        "'env'",
    ];
    let denials = denials.map(|denied| format!("permissions.deny = [{denied}]"));
    let rows = rows().into_iter().filter_map(|row| Some(format!("{} = {}", row.key, row.narrower?)));
    for text in rows.chain(denials) {
        let now = explained(&Project::with_marker_skill().user_config(user).project_config(&text));
        if now["error"]["kind"].is_string() {
            changed += 1;
            continue;
        }
        let (before, after) = (permissions(&base), permissions(&now));
        assert!(after.iter().all(|one| before.contains(one)), "{text}: {after:?}");
        for limit in ["timeout_ms", "memory_bytes", "output_bytes", "file_bytes", "open_files", "operations"]
        {
            let (before, after) = (&base["limits"][limit], &now["limits"][limit]);
            assert!(
                before.is_null() || after.as_u64() <= before.as_u64(),
                "{text}: {limit} {before} {after}"
            );
        }
        changed += usize::from(now != base);
    }
    assert!(changed > 10, "only {changed} of the values had any effect");
}
