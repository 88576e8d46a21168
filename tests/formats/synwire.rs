//! What the frontmatter of Synwire says besides that of the specification.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::skill::{SkillLocation, parse};

use crate::project::{Project, kind, sentence, value};

const BUSY: &str = "local n = 0 for i = 1, 3000000 do n = n + i end return n";

#[test]
fn sy_08_limits_of_the_frontmatter_hold() {
    let project = |metadata: &str| {
        Project::new()
            .skill("x", &format!("metadata: {{{metadata}}}\n"))
            .file(".metier/skills/x/scripts/main.lua", BUSY)
    };
    assert_eq!(kind(&project("max_operations: 1000").run(&[])), ErrorKind::Operations);
    value(project("max_operations: 100000000").run(&[]));
    let large = Project::new().skill("x", "metadata: {max_memory_mb: 2}\n").file(
        ".metier/skills/x/scripts/main.lua",
        "local t = {} for i = 1, 1000000 do t[i] = {i} end return #t",
    );
    assert_eq!(kind(&large.run(&[])), ErrorKind::Memory);
}

#[test]
fn sy_08_a_limit_that_cannot_be_read_is_not_left_out() {
    for limit in ["max_operations: many", "max_memory_mb: 0", "max_operations: -1", "max_memory_mb: [1]"] {
        let project = Project::new()
            .skill("x", &format!("metadata: {{{limit}}}\n"))
            .file(".metier/skills/x/scripts/main.lua", BUSY);
        let outcome = project.engine().run(Invocation::new("x"));
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{limit}");
        assert!(sentence(&outcome).contains("whole number of at least 1"), "{limit}: {}", sentence(&outcome));
    }
}

#[test]
fn sy_04_a_range_of_versions_is_compared_and_warned_of() {
    let codes = |compatibility: &str| {
        let text = format!("---\nname: x\ndescription: d\ncompatibility: \"{compatibility}\"\n---\n");
        let parsed = parse(text.as_bytes(), SkillLocation { directory: "x", file_name: "SKILL.md" });
        assert!(parsed.is_loadable());
        parsed.diagnostics.iter().map(|found| found.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(">=99.0"), ["compatibility-version"]);
    for fitting in [">=0.0.1", "Requires git", "^not a range", "<= a few words"] {
        assert_eq!(codes(fitting), [""; 0], "{fitting}");
    }
}

#[test]
fn sy_09_a_runtime_that_does_not_exist_is_refused() {
    let project =
        Project::new().skill("x", "runtime: cobol\n").file(".metier/skills/x/scripts/main.lua", "return 1");
    assert_eq!(kind(&project.run(&[])), ErrorKind::InvalidSkill);
}
