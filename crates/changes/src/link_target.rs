//! Whether the target of a symbolic link stays in the project.

use std::path::{Component, Path};

/// Whether a link at this path in the project can lead out of it. Only `..` at the beginning of a target is understood, as far as there
/// are folders above the link: after a name it may start from wherever another link leads.
pub(crate) fn leads_outside(link: &Path, target: &Path) -> bool {
    let mut folders_above = link.components().count().saturating_sub(1);
    let mut is_at_beginning = true;
    for part in target.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if is_at_beginning && folders_above > 0 => folders_above -= 1,
            Component::Normal(_) => is_at_beginning = false,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_can_lead_out_of_the_project_are_found() {
        for (link, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../b"),
            ("d/a", "../../b"),
            ("a", "b/.."),
            ("a", "b/../../c"),
            ("d/a", "./../../b"),
            ("d/e/a", "../x/../../y"),
        ] {
            assert!(leads_outside(Path::new(link), Path::new(target)), "{link} -> {target}");
        }
        for (link, target) in
            [("a", "b"), ("a", "b/c"), ("a", "."), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("d/a", "..b")]
        {
            assert!(!leads_outside(Path::new(link), Path::new(target)), "{link} -> {target}");
        }
    }
}
