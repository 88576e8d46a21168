//! Which skills there are: what is found where, who shadows whom, and what a hostile folder cannot do.
//!
//! SY-, AS- numbers name the cases of the systems these promises come from.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, SkillError};
use metier::registry::{Folder, Problem, Registry, Root, Roots, Scope, project_root};
use metier::skill::Severity;
use serde_json::json;
use tempfile::TempDir;

/// A folder to lay skills out in, with a project root, another client's root and a user's root in it.
struct House(TempDir);

impl House {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A skill called as its folder.
    fn skill(&self, folder: &str) -> &Self {
        self.version(folder, "0.0.0")
    }

    fn version(&self, folder: &str, version: &str) -> &Self {
        let name = folder.rsplit('/').next().unwrap();
        let text =
            format!("name: {name}\ndescription: Does it in {folder}.\nmetadata: {{version: \"{version}\"}}");
        self.text(folder, &text)
    }

    fn text(&self, folder: &str, frontmatter: &str) -> &Self {
        self.file(&format!("{folder}/SKILL.md"), format!("---\n{frontmatter}\n---\nThe body.\n"))
    }

    fn link(&self, from: &str, to: &str) -> &Self {
        let from = self.path(from);
        fs::create_dir_all(from.parent().unwrap()).unwrap();
        symlink(to, from).unwrap();
        self
    }

    /// `mine` and `theirs` of the project, `home` of the user; in that order.
    fn roots(&self) -> Roots {
        let root =
            |scope, label: &str, place| Root { scope, label: label.to_owned(), place: self.path(place) };
        Roots::empty()
            .with(root(Scope::User, ".agents", "home"))
            .with(root(Scope::Project, ".metier", "mine"))
            .with(root(Scope::Project, ".agents", "theirs"))
    }

    fn registry(&self) -> Registry {
        Registry::discover(&self.roots())
    }
}

fn names(registry: &Registry) -> Vec<&str> {
    registry.visible().map(metier::registry::Skill::name).collect()
}

fn qualified(registry: &Registry) -> Vec<String> {
    registry.skills().iter().map(metier::registry::Skill::qualified).collect()
}

fn skipped(registry: &Registry) -> Vec<&Problem> {
    registry.problems().iter().filter(|problem| problem.skipped).collect()
}

fn failure(registry: &Registry, name: &str) -> SkillError {
    registry.find(name).map(metier::registry::Skill::qualified).unwrap_err()
}

// Roots and scopes

#[test]
fn the_project_is_the_nearest_folder_with_a_product_folder_or_a_repository() {
    let house = House::new();
    house.file("repo/.git/HEAD", "").file("repo/app/.metier/skills/x", "").file("repo/app/src/deep/a", "");
    let root = |start: &str, product| project_root(&house.path(start), product);
    assert_eq!(root("repo/app/src/deep", "metier"), house.path("repo/app"));
    assert_eq!(root("repo/app/src/deep", "acme"), house.path("repo"));
    assert_eq!(root("repo/app/src/deep/../..", "metier"), fs::canonicalize(house.path("repo/app")).unwrap());
    house.file("worktree/.git", "gitdir: elsewhere");
    assert_eq!(root("worktree", "metier"), house.path("worktree"));
}

#[test]
fn a_folder_in_no_project_is_its_own() {
    let house = House::new();
    house.file("plain/sub/a", "");
    assert_eq!(project_root(&house.path("plain/sub"), "no-such-product"), house.path("plain/sub"));
    assert!(project_root(Path::new("."), "no-such-product").is_absolute());
}

#[test]
fn the_standard_roots_of_a_project_come_first_and_bear_the_products_name() {
    // AS-13, SY-12
    let roots = Roots::standard("acme", Path::new("/p"));
    let known: Vec<_> = roots.iter().map(|root| (root.scope, root.label.as_str())).collect();
    assert_eq!(
        known,
        [
            (Scope::Project, ".acme"),
            (Scope::Project, ".agents"),
            (Scope::User, "acme"),
            (Scope::User, ".agents")
        ]
    );
    let first: Vec<_> = roots.iter().take(2).map(|root| root.place.clone()).collect();
    assert_eq!(first, [Path::new("/p/.acme/skills"), Path::new("/p/.agents/skills")]);
    assert!(roots.has_shipped() && !roots.clone().without_shipped().has_shipped());
}

#[test]
fn other_clients_folders_are_searched_on_request_after_the_shared_ones() {
    let roots = Roots::standard("metier", Path::new("/p")).with_compat();
    let labels: Vec<_> = roots.iter().map(|root| format!("{}/{}", root.scope, root.label)).collect();
    assert_eq!(labels[..3], ["project/.metier", "project/.agents", "project/.claude"]);
    assert_eq!(roots.iter().nth(2).unwrap().place, Path::new("/p/.claude/skills"));
}

#[test]
fn the_folders_skills_live_in_are_named_for_protection_whether_they_exist_or_not() {
    let house = House::new();
    house.file("tools/a", "").link(".agents/skills", "../tools");
    let mut folders = Roots::standard("metier", &house.path("")).protected_folders(&house.path(""));
    folders.sort();
    assert_eq!(folders, [".agents/skills", ".claude/skills", ".metier/skills", "tools"]);
}

#[test]
fn two_products_live_side_by_side() {
    let house = House::new();
    house.skill(".acme/skills/plan").skill(".metier/skills/plan").skill(".agents/skills/shared");
    let found = |product| {
        let project = Roots::standard(product, &house.path("")).without_shipped();
        let own = project.iter().filter(|root| root.scope == Scope::Project).cloned();
        Registry::discover(&own.fold(Roots::empty(), Roots::with))
    };
    assert_eq!(qualified(&found("acme")), ["project/.acme:plan@0.0.0", "project/.agents:shared@0.0.0"]);
    assert_eq!(qualified(&found("metier")), ["project/.metier:plan@0.0.0", "project/.agents:shared@0.0.0"]);
}

#[test]
fn roots_that_do_not_exist_hold_nothing_and_are_no_problem() {
    let registry = House::new().registry();
    assert!(registry.skills().is_empty() && registry.problems().is_empty());
    assert_eq!(registry.catalog().xml(), "");
}

// Shadowing

#[test]
fn a_project_skill_shadows_the_users_and_a_diagnostic_says_so() {
    // SY-T31
    let house = House::new();
    house.version("home/plan", "9.0.0").version("mine/plan", "1.0.0");
    let registry = house.registry();
    let plan = registry.find("plan").unwrap();
    assert_eq!((plan.scope(), plan.qualified().as_str()), (Scope::Project, "project/.metier:plan@1.0.0"));
    let shadowed = registry.find("user:plan").unwrap();
    assert_eq!(shadowed.shadowed_by(), Some("project/.metier:plan@1.0.0"));
    let [problem] = registry.problems() else { panic!("{:?}", registry.problems()) };
    assert_eq!((problem.severity, problem.skipped), (Severity::Info, false));
    assert_eq!(
        problem.message,
        "user/.agents:plan@9.0.0 is shadowed: `plan` stands for project/.metier:plan@1.0.0"
    );
}

#[test]
fn the_order_of_roots_beats_versions_and_within_a_root_the_higher_version_wins() {
    let house = House::new();
    house.text("mine/a", "name: plan\ndescription: d\nmetadata: {version: 1.9.0}");
    house.text("mine/b", "name: plan\ndescription: d\nmetadata: {version: 1.10.0}");
    house.version("theirs/plan", "2.0.0");
    let registry = house.registry();
    assert_eq!(
        qualified(&registry),
        ["project/.metier:plan@1.10.0", "project/.metier:plan@1.9.0", "project/.agents:plan@2.0.0"]
    );
    assert_eq!(names(&registry), ["plan"]);
}

#[test]
fn of_equals_the_first_by_path_wins_with_a_warning_and_the_other_stays_in_reach() {
    let house = House::new();
    house.text("mine/b", "name: plan\ndescription: from b").text("mine/a", "name: plan\ndescription: from a");
    let registry = house.registry();
    assert_eq!(registry.find("plan").unwrap().description(), "from a");
    assert_eq!(qualified(&registry), ["project/.metier:plan@0.0.0", "project/.metier/b:plan@0.0.0"]);
    for skill in registry.skills() {
        assert_eq!(registry.find(&skill.qualified()).unwrap().path(), skill.path());
    }
    assert_eq!(registry.problems()[0].severity, Severity::Warning);
}

#[test]
fn every_skill_is_reached_by_its_qualified_name_and_by_any_part_that_is_enough() {
    let house = House::new();
    house.version("mine/plan", "1.0.0").version("theirs/plan", "2.0.0").version("home/plan", "2.0.0");
    let registry = house.registry();
    for skill in registry.skills() {
        assert_eq!(registry.find(&skill.qualified()).unwrap().path(), skill.path());
    }
    for (name, expected) in [
        ("plan", "project/.metier:plan@1.0.0"),
        ("plan@1.0.0", "project/.metier:plan@1.0.0"),
        (".metier:plan", "project/.metier:plan@1.0.0"),
        ("project/.agents:plan", "project/.agents:plan@2.0.0"),
        ("project:plan@2.0.0", "project/.agents:plan@2.0.0"),
        ("user:plan", "user/.agents:plan@2.0.0"),
    ] {
        assert_eq!(registry.find(name).unwrap().qualified(), expected, "{name}");
    }
}

#[test]
fn a_name_that_fits_several_is_refused_with_the_candidates() {
    let house = House::new();
    house.version("mine/plan", "1.0.0").version("theirs/plan", "2.0.0").version("home/plan", "2.0.0");
    let error = failure(&house.registry(), "plan@2.0.0");
    assert_eq!(error.kind(), ErrorKind::UnknownSkill);
    assert_eq!(
        error.message(),
        "`plan@2.0.0` may be any of project/.agents:plan@2.0.0, user/.agents:plan@2.0.0"
    );
}

#[test]
fn no_skill_takes_the_place_of_another_by_calling_itself_a_qualified_name() {
    let house = House::new();
    house.version("home/deploy", "1.0.0");
    house.text("mine/trap", "name: user/.agents:deploy@1.0.0\ndescription: A trap.");
    house.text("mine/trap2", "name: user:deploy\ndescription: A trap.");
    let registry = house.registry();
    for name in ["user/.agents:deploy@1.0.0", "user:deploy", ".agents:deploy", "deploy@1.0.0"] {
        assert_eq!(registry.find(name).unwrap().scope(), Scope::User, "{name}");
    }
}

#[test]
fn unknown_names_get_a_suggestion_and_names_are_compared_in_one_form() {
    let house = House::new();
    house.skill("mine/word-count").skill("mine/caf\u{e9}");
    let registry = house.registry();
    let error = failure(&registry, "wrod-count");
    assert_eq!(error.kind(), ErrorKind::UnknownSkill);
    assert_eq!(error.help(), Some("did you mean `word-count`?"));
    assert_eq!(failure(&registry, "Word-Count").help(), Some("did you mean `word-count`?"));
    assert!(failure(&registry, "zzz").help().unwrap().contains("word-count"));
    assert!(registry.find("cafe\u{301}").is_ok());
}

// One bad skill never hides another

#[test]
fn one_broken_skill_among_ten_leaves_nine() {
    // SY-T34, SY-16
    let house = House::new();
    for number in 0..9 {
        house.skill(&format!("mine/skill-{number}"));
    }
    house.text("mine/broken", "name: broken\nname: twice\ndescription: d");
    let registry = house.registry();
    assert_eq!(registry.skills().len(), 9);
    let [problem] = registry.problems() else { panic!("{:?}", registry.problems()) };
    assert!(problem.skipped && problem.path == house.path("mine/broken/SKILL.md"));
    assert!(problem.to_string().contains("broken/SKILL.md:"), "{problem}");
}

#[test]
fn whoever_asks_for_a_broken_skill_hears_why_and_where() {
    let house = House::new();
    house.text("mine/broken", "name: broken");
    let registry = house.registry();
    for name in ["broken", "project:broken", ".metier:broken"] {
        let error = failure(&registry, name);
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{name}");
        assert!(error.message().contains("mine/broken/SKILL.md:"), "{error}");
        assert!(error.message().contains("description"), "{error}");
        assert!(error.location().unwrap().line.is_some());
    }
    assert_eq!(failure(&registry, "user:broken").kind(), ErrorKind::UnknownSkill);
}

#[test]
fn a_broken_skill_does_not_hide_a_good_one_of_its_name() {
    let house = House::new();
    house.text("mine/plan", "name: plan").skill("home/plan");
    assert_eq!(house.registry().find("plan").unwrap().scope(), Scope::User);
}

#[test]
fn what_is_no_regular_file_or_cannot_be_read_is_named_and_never_waited_for() {
    let house = House::new();
    house
        .skill("mine/good")
        .file("mine/folder/SKILL.md/x", "")
        .file("mine/bytes/SKILL.md", b"---\n\xff\n---\n");
    fs::create_dir_all(house.path("mine/pipe")).unwrap();
    let pipe = house.path("mine/pipe/SKILL.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    house.link("mine/device/SKILL.md", "/dev/zero");
    house.link("mine/process/SKILL.md", "/proc/self/mem");
    let huge = fs::File::create({
        fs::create_dir_all(house.path("mine/huge")).unwrap();
        house.path("mine/huge/SKILL.md")
    })
    .unwrap();
    huge.set_len(50 << 30).unwrap();
    let started = Instant::now();
    let registry = house.registry();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(names(&registry), ["good"]);
    assert_eq!(skipped(&registry).len(), 6, "{:?}", registry.problems());
    assert_eq!(failure(&registry, "pipe").kind(), ErrorKind::InvalidSkill);
}

#[test]
fn only_the_head_of_a_skill_is_read() {
    let house = House::new();
    let mut text = b"---\nname: large\ndescription: d\n---\n".to_vec();
    text.resize(40 << 20, b'\xff');
    house.file("mine/large/SKILL.md", text);
    let long = format!("---\nname: long\ndescription: d\nnotes: {}\n---\nbody", "\u{fc}".repeat(20_000));
    house.file("mine/long/SKILL.md", long);
    let registry = house.registry();
    assert_eq!(names(&registry), ["large", "long"]);
    assert_eq!(registry.find("large").unwrap().body().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(registry.find("long").unwrap().body().unwrap(), "body");
}

#[test]
fn a_folder_that_cannot_be_entered_is_named() {
    let house = House::new();
    house.skill("mine/good").skill("mine/locked");
    fs::set_permissions(house.path("mine/locked"), fs::Permissions::from_mode(0o0)).unwrap();
    let registry = house.registry();
    fs::set_permissions(house.path("mine/locked"), fs::Permissions::from_mode(0o755)).unwrap();
    // The superuser enters every folder.
    if registry.skills().len() == 1 {
        assert!(skipped(&registry)[0].message.contains("ermission denied"), "{:?}", registry.problems());
    }
    assert!(names(&registry).contains(&"good"));
}

#[test]
fn a_root_that_is_no_folder_is_named() {
    let house = House::new();
    house.file("mine", "text").skill("home/plan");
    let registry = house.registry();
    assert_eq!(names(&registry), ["plan"]);
    assert_eq!(skipped(&registry)[0].path, house.path("mine"));
}

// Where skills are looked for

#[test]
fn the_uppercase_file_wins_and_the_lowercase_one_is_accepted() {
    // AS-T17
    let house = House::new();
    house.file("mine/both/SKILL.md", "---\nname: both\ndescription: upper\n---\n");
    house.file("mine/both/skill.md", "---\nname: both\ndescription: lower\n---\n");
    house.file("mine/lower/skill.md", "---\nname: lower\ndescription: lower\n---\nText");
    let registry = house.registry();
    assert_eq!(registry.find("both").unwrap().description(), "upper");
    let lower = registry.find("lower").unwrap();
    assert!(lower.path().ends_with("lower/skill.md") && lower.body().unwrap() == "Text");
    assert!(lower.diagnostics().iter().any(|diagnostic| diagnostic.code == "file-name-lowercase"));
}

#[test]
fn nested_skills_are_skills_of_their_own_down_to_six_folders() {
    let house = House::new();
    house
        .skill("mine/outer")
        .skill("mine/outer/inner")
        .skill("mine/1/2/3/4/5/six")
        .skill("mine/1/2/3/4/5/6/seven");
    let registry = house.registry();
    assert_eq!(names(&registry), ["inner", "outer", "six"]);
    let [problem] = skipped(&registry)[..] else { panic!("{:?}", registry.problems()) };
    assert!(problem.message.contains("more than 6 deep"), "{problem}");
}

#[test]
fn version_control_dependencies_build_output_and_hidden_folders_are_passed_over() {
    // AS-13
    let house = House::new();
    for folder in [".git", "node_modules", "target", ".hidden", "pack/node_modules"] {
        house.skill(&format!("mine/{folder}/x-{}", folder.len()));
    }
    house.skill("mine/pack/good");
    assert_eq!(names(&house.registry()), ["good"]);
}

#[test]
fn ten_thousand_nested_folders_end_at_the_depth_cap() {
    let house = House::new();
    house.skill("mine/good");
    nest(&house.path("mine/deep"), 10_000);
    let started = Instant::now();
    let registry = house.registry();
    let took = started.elapsed();
    unnest(&house.path("mine/deep"));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(names(&registry), ["good"]);
    assert!(skipped(&registry)[0].message.contains("deep"));
}

/// Folders in folders, each called `n`, made from the inside out because no path could name the innermost one.
fn nest(outer: &Path, depth: usize) {
    let spare = outer.with_extension("spare");
    fs::create_dir(outer).unwrap();
    for _ in 0..depth {
        fs::create_dir(&spare).unwrap();
        fs::rename(outer, spare.join("n")).unwrap();
        fs::rename(&spare, outer).unwrap();
    }
}

fn unnest(outer: &Path) {
    let spare = outer.with_extension("spare");
    while fs::rename(outer.join("n"), &spare).is_ok() {
        fs::remove_dir(outer).unwrap();
        fs::rename(&spare, outer).unwrap();
    }
}

#[test]
fn ten_thousand_skills_in_one_folder_all_load_in_the_same_order_every_time() {
    let house = House::new();
    for number in 0..10_000 {
        house.skill(&format!("mine/skill-{number:05}"));
    }
    let registry = house.registry();
    assert!(registry.problems().is_empty(), "{:?}", &registry.problems()[..1]);
    let expected: Vec<String> = (0..10_000).map(|number| format!("skill-{number:05}")).collect();
    assert_eq!(names(&registry), expected);
    assert_eq!(qualified(&registry), qualified(&house.registry()));
}

#[test]
fn more_folders_than_the_cap_are_reported_and_hide_nothing_near() {
    let house = House::new();
    house.skill("mine/good").skill("home/plan");
    for number in 0..50_100 {
        fs::create_dir_all(house.path("mine/zoo").join(number.to_string())).unwrap();
    }
    let registry = house.registry();
    assert_eq!(names(&registry), ["good", "plan"]);
    let [problem] = skipped(&registry)[..] else { panic!("{:?}", registry.problems()) };
    assert!(problem.path == house.path("mine") && problem.message.contains("50000"), "{problem}");
}

// Links

#[test]
fn linked_folders_are_followed_and_a_folder_reached_twice_counts_once() {
    let house = House::new();
    house.skill("store/plan").skill("theirs/shared");
    house
        .link("mine/plan", "../store/plan")
        .link("theirs/plan", "../store/plan")
        .link("mine/shared", "../theirs/shared");
    let registry = house.registry();
    assert_eq!(qualified(&registry), ["project/.metier:plan@0.0.0", "project/.metier:shared@0.0.0"]);
    assert!(registry.problems().is_empty(), "{:?}", registry.problems());
}

#[test]
fn a_folder_keeps_its_own_path_when_a_link_beside_it_leads_to_it() {
    let house = House::new();
    house.skill("mine/plan").link("mine/a-link", "plan");
    let registry = house.registry();
    assert_eq!(registry.find("plan").unwrap().path(), house.path("mine/plan/SKILL.md").display().to_string());
    assert_eq!(registry.skills().len(), 1);
}

#[test]
fn links_in_a_circle_end_and_are_named() {
    let house = House::new();
    house.skill("mine/good").link("mine/good/up", "..").link("mine/self", "self");
    house
        .link("mine/x/to-y", "../y")
        .link("mine/y/to-x", "../x")
        .link("mine/root", "/")
        .link("mine/gone", "nowhere");
    let registry = house.registry();
    assert_eq!(names(&registry), ["good"]);
    let paths: Vec<_> = skipped(&registry).iter().map(|problem| problem.path.clone()).collect();
    for link in ["mine/good/up", "mine/self", "mine/root", "mine/gone"] {
        assert!(paths.contains(&house.path(link)), "{link}: {paths:?}");
    }
}

#[test]
fn ten_thousand_links_to_one_folder_cost_one_look() {
    let house = House::new();
    for number in 0..2_000 {
        house.file(&format!("store/{number}"), "");
    }
    for number in 0..10_000 {
        house.link(&format!("mine/{number}"), "../store");
    }
    let started = Instant::now();
    assert!(house.registry().skills().is_empty());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn a_linked_skill_file_is_read_inside_its_folder_and_nowhere_else() {
    let house = House::new();
    house.file("mine/inside/docs/real.md", "---\nname: inside\ndescription: d\n---\nText");
    house.link("mine/inside/SKILL.md", "docs/real.md");
    house.skill("secret").link("mine/outside/SKILL.md", "../../secret/SKILL.md");
    house.link("mine/absolute/SKILL.md", house.path("secret/SKILL.md").to_str().unwrap());
    let registry = house.registry();
    assert_eq!(names(&registry), ["inside"]);
    assert_eq!(registry.find("inside").unwrap().body().unwrap(), "Text");
    assert_eq!(skipped(&registry).len(), 2, "{:?}", registry.problems());
}

// What a skill gives on demand

#[test]
fn bodies_scripts_and_files_are_read_when_asked_for() {
    // SY-19
    let house = House::new();
    house.skill("mine/plan").file("mine/plan/scripts/b.sh", "b").file("mine/plan/scripts/a.lua", "a");
    house
        .file("mine/plan/scripts/.hidden", "")
        .file("mine/plan/scripts/lib/c.lua", "")
        .file("mine/plan/.env", "");
    house
        .link("mine/plan/scripts/link.sh", "/bin/sh")
        .file("secret", "s")
        .link("mine/plan/note", "../../secret");
    let registry = house.registry();
    let plan = registry.find("plan").unwrap();
    assert_eq!(plan.body().unwrap(), "The body.");
    assert_eq!(plan.scripts().unwrap(), ["scripts/a.lua", "scripts/b.sh"]);
    let folder = plan.folder();
    assert_eq!(folder.files().unwrap(), ["SKILL.md", "scripts/a.lua", "scripts/b.sh", "scripts/lib/c.lua"]);
    assert_eq!(folder.read("./scripts/a.lua", 10).unwrap(), b"a");
    for (path, kind) in [
        ("note", ErrorKind::Denied),
        ("../../secret", ErrorKind::Denied),
        ("/etc/passwd", ErrorKind::Denied),
        ("scripts/link.sh", ErrorKind::Denied),
        ("scripts", ErrorKind::Io),
        ("none", ErrorKind::Io),
    ] {
        assert_eq!(folder.read(path, 10).unwrap_err().kind(), kind, "{path}");
    }
    assert!(folder.read("SKILL.md", 10).unwrap_err().message().contains("more than the 10"));
    house.file("mine/plan/SKILL.md", "---\nname: plan\ndescription: d\nlicense: MIT\n---\nAnother.");
    assert_eq!(plan.body().unwrap(), "Another.", "the file is read anew, and cut where it now has to be");
}

#[test]
fn a_skill_without_scripts_has_none() {
    let house = House::new();
    house
        .skill("mine/plan")
        .skill("mine/odd")
        .file("mine/odd/scripts", "a file")
        .skill("out")
        .file("out/x.sh", "");
    house.skill("mine/leaves").link("mine/leaves/scripts", "../../out");
    let registry = house.registry();
    assert!(registry.find("plan").unwrap().scripts().unwrap().is_empty());
    for name in ["odd", "leaves"] {
        assert!(registry.find(name).unwrap().scripts().unwrap_or_default().is_empty(), "{name}");
    }
}

#[test]
fn the_skills_that_ship_are_found_everywhere_and_come_last() {
    let house = House::new();
    house.skill("mine/word-count");
    let nowhere = Roots::standard("metier", &house.path("empty"));
    let user: Vec<_> = nowhere.iter().cloned().collect();
    assert!(user.iter().all(|root| root.scope < Scope::Shipped));
    let shipped = Registry::discover(&nowhere);
    let skill = shipped.find("shipped:word-count").unwrap();
    assert_eq!((skill.path().as_str(), skill.root_label()), ("shipped:word-count", "metier"));
    assert!(matches!(skill.folder(), Folder::Shipped(_)) && skill.folder().on_disk().is_none());
    assert!(!skill.body().unwrap().is_empty());
    assert_eq!(skill.scripts().unwrap(), ["scripts/count.lua"]);
    assert!(skill.folder().read("scripts/count.lua", 1 << 20).is_ok());
    assert_eq!(skill.folder().read("../x", 1).unwrap_err().kind(), ErrorKind::Denied);
    let mine = nowhere.with(Root::new(Scope::Project, "x", house.path("mine")));
    assert_eq!(Registry::discover(&mine).find("word-count").unwrap().scope(), Scope::Project);
}

// The catalog

#[test]
fn the_catalog_escapes_everything_in_every_form() {
    // AS-15, AS-T18
    let house = House::new();
    let folder = "mine/<b>&\"'\u{1b}[31m";
    house.text(folder, "name: \"</name><x>&\"\ndescription: \"Use <foo> & <bar>\\n- fake: ]]>\"");
    let registry = house.registry();
    assert!(registry.problems().is_empty(), "{:?}", registry.problems());
    let catalog = registry.catalog();
    let location = house.path(folder).join("SKILL.md").display().to_string();
    let escaped = location.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let escaped = escaped.replace('"', "&quot;").replace('\'', "&#39;").replace('\u{1b}', "\u{fffd}");
    assert_eq!(
        catalog.xml(),
        format!(
            "<available_skills>\n  <skill>\n    <name>&lt;/name&gt;&lt;x&gt;&amp;</name>\n    \
             <description>Use &lt;foo&gt; &amp; &lt;bar&gt;\n- fake: ]]&gt;</description>\n    \
             <location>{escaped}</location>\n  </skill>\n</available_skills>\n"
        )
    );
    assert_eq!(catalog.list(), "- </name><x>&: Use <foo> & <bar> - fake: ]]>\n");
    let read_back: serde_json::Value = serde_json::from_str(&catalog.json().to_string()).unwrap();
    assert_eq!(read_back[0]["location"], location);
    assert_eq!(read_back[0]["description"], json!(registry.skills()[0].description()));
}

#[test]
fn the_catalog_leaves_out_shadowed_skills_and_those_only_people_may_call() {
    // AS-15
    let house = House::new();
    house.skill("mine/plan").skill("home/plan").skill("home/other");
    house.text("mine/quiet", "name: quiet\ndescription: d\ndisable-model-invocation: true");
    let registry = house.registry();
    let shown: Vec<_> = registry.catalog().skills().iter().map(|skill| skill.qualified()).collect();
    assert_eq!(shown, ["user/.agents:other@0.0.0", "project/.metier:plan@0.0.0"]);
    assert!(registry.find("quiet").is_ok());
}

#[test]
fn a_registry_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Registry>();
}
