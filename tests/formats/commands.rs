//! The commands with definitions of other systems: the printed samples, `validate`, `list`, `show`, `doctor`.

use serde_json::json;

use crate::support::cli::{Answer, Project};

const HELM: &str = include_str!("samples/validate-helm-chart.yaml");
const DEPLOY: &str = include_str!("samples/deploy-application.yaml");

/// The skill of the article, with a script and the programs that it needs.
fn helm() -> Project {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new()
        .file(".metier/skills/validate-helm-chart/skill.yaml", HELM)
        .file(
            ".metier/skills/validate-helm-chart/scripts/main.lua",
            "return {valid = true, errors = array{}, rendered_templates = {input.chart_path}, dry = input.dry_run}",
        )
        .file("bin/helm", "#!/bin/sh\necho v3.14.2+gc309b6f\n");
    std::fs::set_permissions(project.path("bin/helm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    project
}

fn metier(project: &Project, args: &[&str]) -> Answer {
    let mut folders = vec![project.path("bin")];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    project.command(args).env("PATH", path).output().unwrap().into()
}

#[test]
fn the_first_sample_of_the_article_runs_as_it_is_printed() {
    let project = helm();
    let answer = metier(
        &project,
        &["run", "validate-helm-chart", "--input", r#"{"chart_path": "./charts/my-app"}"#, "--json"],
    );
    let outcome = answer.json();
    assert_eq!(outcome["value"]["valid"], json!(true), "{answer:?}");
    assert_eq!(outcome["value"]["dry"], json!(false), "AR-T02");
    let refused = metier(&project, &["run", "validate-helm-chart", "--input", r#"{"chart_path": "a;b"}"#]);
    assert_eq!(refused.code, 2, "AR-T03: {refused:?}");
    let shown = metier(&project, &["show", "validate-helm-chart"]);
    assert!(shown.stdout.contains("5-30s") && shown.stdout.contains("read-only"), "{shown:?}");
    let validated = metier(&project, &["validate", ".metier/skills/validate-helm-chart"]);
    assert_eq!(validated.code, 0, "{validated:?}");
}

#[test]
fn the_second_sample_of_the_article_runs_as_it_is_printed() {
    let project = helm()
        .file(".metier/skills/deploy-application/skill.yaml", DEPLOY)
        .file(
            ".metier/skills/cluster-auth/skill.yaml",
            "skill: {name: cluster-auth, description: d, inputs: {cluster: {type: string, required: true}}, outputs: {kubeconfig: {type: object}}}",
        )
        .file(".metier/skills/cluster-auth/scripts/main.lua", "return {kubeconfig = {server = input.cluster}}")
        .file(
            ".metier/skills/helm-install/skill.yaml",
            "skill: {name: helm-install, description: d, inputs: {chart_path: {type: string}, namespace: {type: string}, kubeconfig: {type: object, required: true}}, outputs: {created_resources: {type: array, items: {type: string}}}}",
        )
        .file(".metier/skills/helm-install/scripts/main.lua", "return {created_resources = {input.namespace, input.kubeconfig.server}}")
        .file(
            ".metier/skills/verify-deployment/skill.yaml",
            "skill: {name: verify-deployment, description: d, inputs: {namespace: {type: string}, expected_pods: {type: array}}}",
        )
        .file(".metier/skills/verify-deployment/scripts/main.lua", "return {pods = input.expected_pods}");
    let input = r#"{"chart_path": "./charts/a", "target_cluster": "c1", "namespace": "n1"}"#;
    let grants = ["validate-helm-chart", "cluster-auth", "helm-install", "verify-deployment"];
    let mut args = vec!["run", "deploy-application", "--input", input, "--json"];
    let grants = grants.map(|name| format!("skill:{name}"));
    args.extend(grants.iter().flat_map(|grant| ["--allow", grant.as_str()]));
    let answer = metier(&project, &args);
    assert_eq!(answer.json()["value"]["pods"], json!(["n1", "c1"]), "{answer:?}");
}

#[test]
fn the_commands_see_a_definition_without_a_skill_md() {
    let manifest = json!({
        "name": "pay", "description": "Pays a bill.", "version": "2.0.0", "action_risk": "critical", "sensitivity": "elevated",
        "inputs": {"amount": "number"}, "timeout": 5000,
    });
    let project = Project::new()
        .file(".metier/skills/pay/skill.json", manifest.to_string())
        .file(".metier/skills/pay/handler.js", "export default {execute: () => ({success: true, data: 1})}");
    let list = project.metier(&["list", "--json"]);
    let listed = list.json().to_string();
    assert!(listed.contains("Pays a bill."), "{listed}");
    let shown = project.metier(&["show", "pay", "--json"]).json();
    assert_eq!(shown["contract"]["format"], "curia");
    assert_eq!(shown["contract"]["metadata"]["risk_score"], 90);
    assert_eq!(shown["contract"]["sensitivity"], "elevated");
    assert_eq!((&shown["body"], &shown["scripts"]), (&json!("Pays a bill."), &json!(["handler.js"])));
    for path in [".metier/skills/pay", ".metier/skills/pay/skill.json", "pay", ".metier/skills"] {
        let answer = project.metier(&["validate", path]);
        assert_eq!(answer.code, 0, "{path}: {answer:?}");
        assert!(answer.stdout.contains("1 skill checked: 1 valid"), "{path}: {answer:?}");
    }
    let elsewhere = project.metier(&["validate", "--profile", "skills-ref", "pay"]);
    assert!(
        elsewhere.code == 1 && elsewhere.stdout.contains("Missing required file: SKILL.md"),
        "{elsewhere:?}"
    );
    let doctor = project.metier(&["doctor", "--json"]);
    assert!(doctor.stdout.contains("\"pay\"") || doctor.code == 0, "{doctor:?}");
}

#[test]
fn validate_says_where_a_manifest_is_wrong() {
    let project = Project::new()
        .file(".metier/skills/pay/skill.json", "{\n  \"name\": \"pay\",\n  \"description\": \"d\",\n  \"version\": \"1.0.0\",\n  \"action_risk\": \"severe\"\n}\n")
        .file(".metier/skills/pay/handler.js", "export default {execute: () => ({success: true})}");
    let answer = project.metier(&["validate", ".metier/skills/pay"]);
    assert!(answer.code == 1 && answer.stdout.contains("skill.json:5"), "{answer:?}");
    let ran = project.metier(&["run", "pay"]);
    assert!(ran.code != 0 && ran.stderr.contains("skill.json:5:"), "{ran:?}");
    let list = project.metier(&["list"]);
    assert!(list.stderr.contains("action_risk") || list.stdout.contains("action_risk"), "{list:?}");
    let without = Project::new().skill(".metier/skills/pay").file(
        ".metier/skills/pay/skill.json",
        r#"{"name": "pay", "description": "d", "version": "1.0.0", "action_risk": "low"}"#,
    );
    let answer = without.metier(&["validate", ".metier/skills/pay"]);
    assert!(answer.code == 1 && answer.stdout.contains("has no handler.ts or handler.js"), "{answer:?}");
}

#[test]
fn what_is_imported_runs_and_what_is_exported_lists_what_it_loses() {
    let manifest = json!({
        "name": "double", "description": "Doubles.", "version": "1.0.0", "action_risk": "none", "inputs": {"n": "number"},
    });
    let project = Project::new()
        .file("from/double/skill.json", manifest.to_string())
        .file(
            "from/double/handler.js",
            "export default {execute: (ctx) => ({success: true, data: ctx.input.n * 2})}",
        )
        .file("from/.hidden", "x");
    let made = project.metier(&["import", "from/double"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(project.read(".metier/skills/double/skill.json"), manifest.to_string(), "byte for byte");
    assert!(project.read(".metier/skills/double/SKILL.md").contains("description: Doubles.\n"));
    let validated = project.metier(&["validate", ".metier/skills/double"]);
    assert_eq!(validated.code, 0, "{validated:?}");
    let again = project.metier(&["import", "from/double"]);
    assert!(again.code == 2 && again.stderr.contains("there is a skill of that name already"), "{again:?}");
    let written = project.metier(&["export", "double", "--as", "curia"]);
    assert_eq!(written.json()["inputs"], json!({"n": "number"}), "{written:?}");
    let function = project.metier(&["export", "double", "--as", "function-calling"]);
    assert_eq!(function.json()["function"]["parameters"]["required"], json!(["n"]));
    assert!(function.stderr.contains("loses of double: the version"), "{function:?}");
    let folder = project.metier(&["export", "double", "--as", "agentskit", "--out", "out"]);
    assert!(folder.code == 0 && project.path("out/double/skill.json").is_file(), "{folder:?}");
    let twice = project.metier(&["export", "double", "--as", "agentskit", "--out", "out"]);
    assert!(twice.code != 0, "nothing is overwritten: {twice:?}");
    let plugin = project.metier(&["export", "double", "--as", "plugin"]);
    assert!(plugin.code == 2 && plugin.stderr.contains("--out"), "{plugin:?}");
}

#[cfg(unix)]
#[test]
fn nothing_is_imported_to_where_a_link_of_the_project_leads() {
    let definition =
        json!({"name": "double", "description": "Doubles.", "version": "1.0.0", "inputs": {"n": "number"}});
    for (link, target, out) in [
        (".metier", "../elsewhere", None),
        (".metier", ".git", None),
        (".metier/skills", "../.git/hooks", None),
        (".metier/skills", "../src", None),
        (".metier/skills", "../missing", None),
        ("mine", "src", Some("mine/skills")),
    ] {
        let project = Project::new()
            .file("from/double/skill.json", definition.to_string())
            .file(".git/hooks/x", "")
            .file("src/x", "");
        std::fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, project.path(link)).unwrap();
        let before = project.tree();
        let named = out.into_iter().flat_map(|out| ["--out", out]);
        let args: Vec<&str> = ["import", "from/double"].into_iter().chain(named).collect();
        let answer = project.metier(&args);
        assert!(answer.code == 1 && answer.stderr.contains("is a link to"), "{link} {target} {answer:?}");
        assert!(answer.stderr.contains("--out DIR"), "{answer:?}");
        assert_eq!(project.tree(), before, "{link} {target}");
    }
}

#[test]
fn sw_08_the_schema_of_the_format_is_printed() {
    let schema = Project::new().metier(&["schema", "sweny-skill"]).json();
    assert_eq!(schema["$id"], "https://spec.sweny.ai/schemas/skill.json");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn packages_of_a_folder_are_imported_by_name_and_range() {
    let package = |version: &str| {
        let skill =
            json!({"name": "critic", "description": "Criticises.", "systemPrompt": "You find faults."});
        json!({"version": version, "skill": skill}).to_string()
    };
    let project = Project::new()
        .file("packages/a.json", package("1.0.0"))
        .file("packages/b/b.json", package("1.2.0"))
        .file("packages/c.json", package("2.0.0"))
        .file("packages/README.md", "no package");
    let made = project.metier(&["import", "critic@^1", "--from", "packages"]);
    assert_eq!(made.code, 0, "{made:?}");
    let shown = project.metier(&["show", "critic", "--json"]).json();
    assert_eq!(shown["version"], "1.2.0");
    let activated = project.metier(&["activate", "critic", "--json"]).json();
    assert_eq!(activated["instructions"].as_str().map(str::trim), Some("You find faults."));
    let page = project.metier(&["activate", "critic"]);
    assert!(
        page.stdout.contains("critic: Criticises.") && page.stdout.contains("You find faults."),
        "{page:?}"
    );
    let missing = project.metier(&["import", "critic@^3", "--from", "packages"]);
    assert!(missing.code != 0 && missing.stderr.contains("there is 2.0.0, 1.2.0, 1.0.0"), "{missing:?}");
    let twice = Project::new().file("p/a.json", package("1.0.0")).file("p/b.json", package("1.0.0"));
    let refused = twice.metier(&["import", "critic", "--from", "p"]);
    assert!(
        refused.stderr.contains("AK_SKILL_DUPLICATE") && refused.stderr.contains("b.json"),
        "{refused:?}"
    );
}

#[cfg(feature = "sandboxed")]
#[test]
fn cu_10_a_secret_comes_from_the_variable_of_its_name_in_capitals() {
    let manifest = json!({
        "name": "ask", "description": "d", "version": "1.0.0", "action_risk": "none", "secrets": ["brave_api_key"],
    });
    let project = Project::new().file(".metier/skills/ask/skill.json", manifest.to_string()).file(
        ".metier/skills/ask/handler.js",
        "export default {execute: (ctx) => ({success: true, data: ctx.secret('brave_api_key').length})}",
    );
    let run = |grants: &[&str]| {
        let args = [&["run", "ask", "--json"], grants].concat();
        let answer: Answer =
            project.command(&args).env("BRAVE_API_KEY", "k3y-of-nobody").output().unwrap().into();
        answer.json()
    };
    assert_eq!(run(&["--allow", "secret:brave_api_key"])["value"], json!(13));
    let refused = run(&[]);
    assert_eq!(refused["ok"], json!(false), "{refused}");
}

#[test]
fn the_script_of_an_activation_has_no_grant_of_the_configuration() {
    let project = Project::new()
        .lua("x", "ctx.write('out/run', 'x')")
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/on_activate.lua", "ctx.write('out/activated', 'x') return {}")
        .file("out/keep", "");
    let configuration = project.home().join(".config/metier/config.toml");
    std::fs::create_dir_all(configuration.parent().unwrap()).unwrap();
    std::fs::write(configuration, "[skills.x]\ngrants = ['write:out']\n").unwrap();
    assert_eq!(project.metier(&["trust", "--folder", "--yes", "."]).code, 0);
    let refused = project.metier(&["activate", "x"]);
    assert!(refused.code != 0 && refused.stderr.contains("not permitted"), "{refused:?}");
    assert!(!project.path("out/activated").exists());
    // A run has it.
    let ran = project.metier(&["run", "x"]);
    assert!(ran.code == 0 && project.path("out/run").exists(), "{ran:?}");
}

#[test]
fn cu_t21_a_handler_is_read_for_what_its_manifest_does_not_declare() {
    let manifest = json!({
        "name": "ask", "description": "d", "version": "1.0.0", "action_risk": "none", "secrets": ["BRAVE_API_KEY"], "capabilities": ["bus"],
    });
    let handler = "// ctx.secret('never')\nexport default {execute: async (ctx) => {\n  ctx.secret('brave_api_key');\n  \
        ctx.secret('other_key');\n  await ctx.bus.publish({});\n  return ctx.skillSearch('x');\n}};\n";
    let project = Project::new()
        .file(".metier/skills/ask/skill.json", manifest.to_string())
        .file(".metier/skills/ask/handler.ts", handler);
    let validated = project.metier(&["validate", ".metier/skills/ask"]);
    assert_eq!(validated.code, 0, "{validated:?}");
    for words in ["uses the secret `other_key` in line 4", "uses the capability `skillSearch` in line 6"] {
        assert!(validated.stdout.contains(words), "{words}: {validated:?}");
    }
    assert_eq!(validated.stdout.matches("handler-undeclared").count(), 2, "{validated:?}");
}
