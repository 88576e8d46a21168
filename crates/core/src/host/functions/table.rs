//! The table of all host functions.

use super::{callees, http, list, logging, read, search, settings, store, write};
use crate::host::function::HostFunction;

/// All host functions, in the order of the documentation.
const FUNCTIONS: &[&HostFunction] = &[
    &read::READ_FILE,
    &read::HEAD,
    &read::TAIL,
    &list::LIST_DIR,
    &list::STAT,
    &list::TREE,
    &search::GREP,
    &search::GLOB,
    &search::FIND,
    &write::WRITE,
    &write::APPEND,
    &write::EDIT,
    &write::MKDIR,
    &write::REMOVE,
    &read::ASSET,
    &logging::LOG,
    &logging::PROGRESS,
    &callees::TOOL,
    &callees::SKILL,
    &callees::SAMPLE,
    &settings::CONFIG,
    &settings::SECRET,
    &store::STORE_GET,
    &store::STORE_SET,
    &store::STORE_LIST,
    &store::STORE_DELETE,
    &http::HTTP,
];

/// Every function of the host API, in the order of the documentation.
pub fn functions() -> &'static [&'static HostFunction] {
    FUNCTIONS
}

/// The function of that name or alias.
pub fn function(name: &str) -> Option<&'static HostFunction> {
    FUNCTIONS.iter().copied().find(|function| function.name == name || function.aliases.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::ErrorKind;
    use crate::host::function::{AccessRule, FunctionExample};
    use crate::host::{Files, Fixtures, RunContextBuilder, SkillContext};
    use crate::policy::{PathProtection, Permission, Permissions, RequestedPermissions};

    /// A run in a project with the example's files, which is its own skill's folder as well.
    fn run(folder: &std::path::Path, example: &FunctionExample, allow: &[&str]) -> SkillContext {
        for (path, content) in example.files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let granted: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
        SkillContext::builder("test")
            .project(Files::open(folder).unwrap())
            .skill_files(Files::open(folder).unwrap())
            .permissions(Permissions::new(
                RequestedPermissions::Listed(granted.clone()),
                granted,
                PathProtection::default(),
            ))
            .providers(Fixtures::new(example.fixtures).unwrap().providers())
            .build()
    }

    fn arguments(example: &FunctionExample) -> Vec<Value> {
        serde_json::from_str(example.args).unwrap()
    }

    #[test]
    fn every_function_does_what_its_example_says() {
        for function in FUNCTIONS {
            let folder = tempfile::tempdir().unwrap();
            let ctx = run(folder.path(), &function.example, function.example.grants);
            let expected: Value = serde_json::from_str(function.example.answer).unwrap();
            let answer = function.call(&ctx, arguments(&function.example)).unwrap();
            assert_eq!(answer, expected, "{}", function.name);
        }
    }

    #[test]
    fn every_function_that_needs_a_permission_is_denied_without_it() {
        for function in FUNCTIONS {
            let is_everybodys = matches!(
                function.access,
                AccessRule::Unrestricted | AccessRule::Read(_) | AccessRule::ReadRoot
            );
            assert_eq!(is_everybodys, function.example.grants.is_empty(), "{}", function.name);
            // The example may be granted less than the hint names: `write:out`, where `write` is what a person would grant.
            let permission = match (function.access, function.example.grants) {
                (AccessRule::Write(_), _) => "write",
                (_, [permission, ..]) => permission,
                (_, []) => continue,
            };
            let folder = tempfile::tempdir().unwrap();
            let ctx = run(folder.path(), &function.example, &[]);
            let refused = function.call(&ctx, arguments(&function.example)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{}", function.name);
            assert!(refused.message().ends_with(&format!("grant {permission}")), "{refused}");
        }
    }

    #[test]
    fn every_function_that_asks_a_provider_says_when_there_is_none() {
        for function in FUNCTIONS.iter().filter(|function| !function.example.fixtures.is_empty()) {
            let folder = tempfile::tempdir().unwrap();
            let example = FunctionExample { fixtures: "", ..function.example };
            let answer = function.call(&run(folder.path(), &example, example.grants), arguments(&example));
            match answer {
                Ok(value) => assert_eq!((function.name, value), ("config", Value::Null)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    #[test]
    fn names_no_error_could_repeat_are_refused_before_anybody_is_asked() {
        let naming = FUNCTIONS.iter().filter(|function| {
            matches!(function.access, AccessRule::Tool(_) | AccessRule::Skill(_) | AccessRule::Secret(_))
        });
        for function in naming {
            for name in [String::new(), "x".repeat(201), "a\u{1b}[31m".into(), "a\nb".into(), "a\0".into()] {
                let ctx = SkillContext::builder("test").build();
                let refused = function.call(&ctx, vec![name.into()]).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
                assert!(refused.message().len() < 200, "{refused}");
            }
        }
    }

    #[test]
    fn every_function_that_reads_is_denied_what_is_protected() {
        for function in FUNCTIONS {
            let (AccessRule::Read(at) | AccessRule::Write(at)) = function.access else { continue };
            let folder = tempfile::tempdir().unwrap();
            let ctx = run(folder.path(), &function.example, &["write"]);
            let mut arguments = arguments(&function.example);
            arguments.resize(arguments.len().max(at + 1), Value::Null);
            arguments[at] = ".git/config".into();
            let refused = function.call(&ctx, arguments).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{}", function.name);
        }
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let mut names: Vec<_> = FUNCTIONS
            .iter()
            .flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
