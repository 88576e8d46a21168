//! The builtin skills, which are part of the binary so that they run from anywhere.

use super::embedded::EmbeddedSkill;

/// Each row names a folder of `skills/`, the version of the skill, and its files in the binary; test cases beside them are left out.
macro_rules! builtin_skills {
    ($($name:literal $version:literal: $($file:literal),+;)*) => {
        /// Every skill inside the binary, by name.
        pub static BUILTIN_SKILLS: &[EmbeddedSkill] = &[$(EmbeddedSkill::new(
            $name,
            &[$(($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/skills/", $name, "/", $file)))),+],
        ).with_version($version)),*];
    };
}

builtin_skills! {
    "betterstack" "1.0.0": "SKILL.md", "scripts/query.lua", "scripts/sources.lua", "skill.yaml";
    "changelog" "1.0.0": "SKILL.md", "scripts/changelog.py", "skill.yaml";
    "datadog" "1.0.0": "SKILL.md", "skill.yaml";
    "github" "1.0.0": "SKILL.md", "scripts/github.lua", "skill.yaml";
    "linear" "1.0.0": "SKILL.md", "scripts/linear.lua", "skill.yaml";
    "notification" "1.0.0": "SKILL.md", "scripts/webhook.lua", "skill.yaml";
    "release-notes" "1.0.0": "SKILL.md", "skill.yaml";
    "repo-health" "1.0.0": "SKILL.md", "skill.yaml";
    "sentry" "1.0.0": "SKILL.md", "skill.yaml";
    "slack" "1.0.0": "SKILL.md", "scripts/slack.lua", "skill.yaml";
    "summarize" "1.0.0": "SKILL.md", "scripts/summarize.lua", "skill.yaml";
    "supabase" "1.0.0": "SKILL.md", "scripts/supabase.lua", "skill.yaml";
    "todo-report" "1.0.0": "SKILL.md", "scripts/report.lua", "skill.yaml";
    "word-count" "1.0.0": "SKILL.md", "scripts/count.lua", "skill.yaml";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The files below `skills/`, `NAME/path`, without the cases.
    fn on_disk(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{below}{}", entry.file_name().to_str().unwrap());
            if !entry.file_type().unwrap().is_dir() {
                found.insert(path);
            } else if path.split('/').nth(1) != Some("cases") {
                on_disk(&entry.path(), &format!("{path}/"), found);
            }
        }
    }

    #[test]
    fn the_rows_are_the_folder_file_by_file() {
        let mut expected = BTreeSet::new();
        on_disk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("skills"), "", &mut expected);
        let paths = |builtin: &'static EmbeddedSkill| {
            builtin.files().iter().map(move |(path, _)| format!("{}/{path}", builtin.name()))
        };
        let rows: Vec<String> = BUILTIN_SKILLS.iter().flat_map(paths).collect();
        assert_eq!(
            rows,
            expected.into_iter().collect::<Vec<_>>(),
            "add or remove a row of `builtin_skills!`"
        );
    }

    #[test]
    fn every_builtin_skill_is_valid() {
        use crate::registry::contract_file::embedded_contract;
        use metier_skill::{Profile, SkillLocation, parse};
        for builtin in BUILTIN_SKILLS {
            let source = builtin.file("SKILL.md").unwrap();
            let parsed = parse(source, SkillLocation { directory: builtin.name(), file_name: "SKILL.md" });
            assert!(parsed.is_loadable() && parsed.is_valid(Profile::Spec), "{}", builtin.name());
            let manifest = parsed.manifest.unwrap();
            assert_eq!(manifest.name, builtin.name());
            assert_eq!(Some(manifest.version.to_string().as_str()), builtin.version(), "{}", builtin.name());
            let contract = embedded_contract(builtin, &manifest);
            assert!(
                contract.is_none_or(|contract| contract.blocking_diagnostic().is_none()),
                "{}",
                builtin.name()
            );
        }
    }
}
