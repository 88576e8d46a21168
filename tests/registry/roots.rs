//! Where skills are looked for, and in which order.

use std::path::Path;

use metier::registry::{Registry, Root, Roots, Scope, project_root};

use crate::registry::project::{Project, folder_of_name, names, qualified, skipped};

fn labels(roots: &Roots) -> Vec<String> {
    roots.iter().map(|root| format!("{}/{}", root.scope, root.label)).collect()
}

#[test]
fn the_roots_of_a_product_come_nearest_first() {
    // AS-13, SY-12
    let roots = Roots::standard("acme", Path::new("/p"));
    assert_eq!(labels(&roots), ["project/.acme", "project/.agents", "user/acme", "user/.agents"]);
    let places: Vec<_> = roots.iter().take(2).map(|root| root.path.as_path()).collect();
    assert_eq!(places, [Path::new("/p/.acme/skills"), Path::new("/p/.agents/skills")]);
    assert!(roots.iter().all(|root| root.scope < Scope::Builtin));
    assert!(roots.has_builtin() && !roots.without_builtin().has_builtin());
}

#[test]
fn the_folder_of_other_clients_is_read_on_request_after_the_shared_one() {
    let roots = Roots::standard("acme", Path::new("/p")).with_compat();
    let labels = labels(&roots);
    // SW-21, SW-T09, SW-T10
    let in_project =
        ["project/.acme", "project/.agents", "project/.sweny", "project/.claude", "project/.gemini"];
    assert_eq!(labels[..5], in_project);
    assert_eq!(labels[5..], ["user/acme", "user/.agents", "user/.claude"]);
    assert_eq!(roots.iter().nth(3).unwrap().path, Path::new("/p/.claude/skills"));
}

#[test]
fn roots_that_do_not_exist_hold_nothing_and_are_no_problem() {
    for registry in [Project::new().registry(), Registry::discover(&Roots::empty())] {
        assert!(registry.skills().is_empty() && registry.problems().is_empty());
    }
}

#[test]
fn a_root_that_is_no_folder_is_named() {
    let project = Project::new().file(".metier/skills", "text").skill("home/data/skills/plan");
    let registry = project.registry();
    assert_eq!(names(&registry), ["plan"]);
    assert_eq!(skipped(&registry)[0].path, project.path(".metier/skills"));
}

#[test]
fn two_products_live_side_by_side() {
    let project =
        Project::new().skills([".acme/skills/plan", ".metier/skills/plan", ".agents/skills/shared"]);
    for (product, plan) in [("acme", "project/.acme:plan@0.0.0"), ("metier", "project/.metier:plan@0.0.0")] {
        let standard = Roots::standard(product, project.root());
        let own = standard.iter().filter(|root| root.scope == Scope::Project).cloned();
        let registry = Registry::discover(&own.fold(Roots::empty(), Roots::with));
        assert_eq!(qualified(&registry), [plan, "project/.agents:shared@0.0.0"]);
    }
}

#[test]
fn an_embedder_adds_roots_of_its_own_and_every_one_keeps_a_name() {
    let project = Project::new().skill("a/x").skill("b/x").skill("c/x");
    let root = |scope, place| Root::new(scope, "team", project.path(place));
    let roots = Roots::empty()
        .with(root(Scope::User, "c"))
        .with(root(Scope::Explicit, "a"))
        .with(root(Scope::Explicit, "b"));
    assert_eq!(labels(&roots), ["explicit/team", "explicit/team-2", "user/team"]);
    let registry = Registry::discover(&roots);
    for (name, folder) in [("x", "a/x"), ("explicit/team-2:x", "b/x"), ("user:x", "c/x"), ("team-2:x", "b/x")]
    {
        assert_eq!(folder_of_name(&registry, name), folder, "{name}");
    }
}

#[test]
fn what_ships_is_found_everywhere_and_comes_last() {
    let project = Project::new().skill(".metier/skills/word-count");
    let nowhere = Roots::standard("metier-test-of-roots", &project.path("empty"));
    let registry = Registry::discover(&nowhere);
    let builtin = registry.find("builtin:word-count").unwrap();
    assert_eq!(builtin.path(), "builtin:word-count");
    assert!(
        builtin.qualified_name().starts_with("builtin/metier:word-count@"),
        "{}",
        builtin.qualified_name()
    );
    let mine = nowhere.with(Root::new(Scope::Project, ".metier", project.path(".metier/skills")));
    let registry = Registry::discover(&mine);
    assert_eq!(registry.find("word-count").unwrap().scope(), Scope::Project);
    assert_eq!(registry.find("builtin:word-count").unwrap().scope(), Scope::Builtin);
}

#[test]
fn the_project_is_the_nearest_folder_with_a_product_or_a_repository() {
    let project = Project::new()
        .file("outer/.git/HEAD", "")
        .file("outer/inner/.acme/skills/x/SKILL.md", "")
        .file("outer/inner/deep/er/a", "")
        .file("outer/worktree/.git", "gitdir: elsewhere")
        .file("outer/worktree/src/a", "")
        .file("outer/plain/a", "");
    for (start, product, expected) in [
        ("outer/inner/deep/er", "acme", "outer/inner"),
        ("outer/inner/deep/er", "other", "outer"),
        ("outer/worktree", "acme", "outer/worktree"),
        ("outer/worktree/src", "acme", "outer/worktree"),
        ("outer/plain", "acme", "outer"),
        ("outer", "acme", "outer"),
        ("outer/inner/deep/er/../..", "acme", "outer/inner"),
    ] {
        assert_eq!(project_root(&project.path(start), product), project.path(expected), "{start} {product}");
    }
}

#[test]
fn a_folder_in_no_project_is_its_own() {
    let project = Project::new().file("plain/sub/a", "");
    let folder = project.path("plain/sub");
    assert_eq!(project_root(&folder, "a-product-nobody-has"), folder);
    assert!(project_root(Path::new("."), "a-product-nobody-has").is_absolute());
}

#[test]
fn roots_inside_the_project_are_protected_whether_they_exist_or_not_and_wherever_links_lead() {
    let project = Project::new()
        .file("p/src/a", "")
        .file("p/tools/skills/x/SKILL.md", "")
        .file("p/shared/a", "")
        .link("../tools/skills", "p/.acme/skills")
        .link("../shared", "p/.agents/skills")
        .link("p", "link");
    let expected = [
        ".acme/config.toml",
        ".acme/skills",
        ".agents/skills",
        ".claude/skills",
        ".gemini/skills",
        ".sweny/skills",
        "shared",
        "tools/skills",
        "vendor/skills",
    ];
    for (project_path, root) in
        [("p", "p/vendor/skills"), ("link", "link/vendor/skills"), ("p", "link/vendor/skills")]
    {
        let root = Root::new(Scope::Explicit, "vendor", project.path(root));
        let roots = Roots::standard("acme", &project.path(project_path)).with(root);
        for asked in ["p", "link"] {
            let mut found = roots.protected_paths(&project.path(asked));
            found.sort();
            assert_eq!(found, expected, "made for {project_path}, asked for {asked}");
        }
    }
}

/// The variable is the process's, so another process has it.
#[test]
#[cfg(feature = "cli")]
fn the_users_data_folder_is_named_by_the_products_variable() {
    let project = Project::new()
        .skill("named/skills/from-the-variable")
        .skill("home/.agents/skills/shared")
        .skill("platform/acme-tools/skills/from-the-platform")
        .file("p/a", "");
    let list = |variable: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_metier"));
        command.args(["--product", "acme-tools", "--project", "p", "list"]).current_dir(project.root());
        command.env("HOME", project.path("home")).env("XDG_DATA_HOME", project.path("platform"));
        command.env_remove("ACME_TOOLS_DATA_DIR").env_remove("METIER_DATA_DIR");
        command.envs(variable.map(|folder| ("ACME_TOOLS_DATA_DIR", project.path(folder))));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (named, platform) = (list(Some("named")), list(None));
    assert!(named.contains("from-the-variable") && !named.contains("from-the-platform"), "{named}");
    assert!(platform.contains("from-the-platform") && !platform.contains("from-the-variable"), "{platform}");
    assert!(named.contains("shared") && platform.contains("shared"));
}
