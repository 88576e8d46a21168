//! What a run may do: what the skill asks for, held against what the caller grants.

use std::fmt;

use super::permission::{Need, Permission};
use super::protected::Protection;
use crate::error::{ErrorKind, Result, SkillError};

/// What a skill asks for. Reading the project is always asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An external script in a skill that names no permission of ours: the caller's grants alone decide.
    Everything,
    /// These, and reading the project.
    These(Vec<Permission>),
}

/// The permissions of one run: a need is allowed when the skill asked for it *and* the caller granted it.
#[derive(Clone, Debug)]
pub struct Permissions {
    asked: Asked,
    granted: Vec<Permission>,
    protection: Protection,
}

impl Permissions {
    /// Holds what was asked against what was granted; reading the project is in both.
    pub fn new(asked: Asked, granted: impl IntoIterator<Item = Permission>, protection: Protection) -> Self {
        Self { asked, granted: granted.into_iter().collect(), protection }
    }

    /// Reading the project and nothing else.
    pub fn read_only() -> Self {
        Self::new(Asked::These(Vec::new()), [], Protection::default())
    }

    /// These permissions without the grants that name nothing, such as plain `net`: for what must be granted by its name.
    pub fn by_name(&self) -> Self {
        let granted = self.granted.iter().filter(|permission| permission.is_scoped()).cloned().collect();
        Self { granted, ..self.clone() }
    }

    /// Whether the run may do this.
    pub fn allows(&self, need: &Need) -> bool {
        self.is_asked(need) && self.is_granted(need)
    }

    /// Refuses with a sentence that starts with `attempt` (`failed to write out/a.txt`) and names the way out.
    pub fn require(&self, need: &Need, attempt: impl fmt::Display) -> Result<()> {
        let (is_asked, is_granted) = (self.is_asked(need), self.is_granted(need));
        if is_asked && is_granted {
            return Ok(());
        }
        let permission = need.remedy(&self.protection);
        let way_out = match (is_asked, is_granted) {
            (true, _) => format!("run with --allow {permission}"),
            (false, true) => format!("list {permission} under allowed-tools in SKILL.md"),
            (false, false) => {
                format!("list {permission} under allowed-tools in SKILL.md and run with --allow {permission}")
            }
        };
        Err(SkillError::new(ErrorKind::Denied, format!("{attempt}: not permitted; {way_out}"))
            .with_help(way_out))
    }

    /// Which paths need a permission that names them.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    fn is_asked(&self, need: &Need) -> bool {
        match &self.asked {
            Asked::Everything => true,
            Asked::These(permissions) => self.any_covers(permissions, need),
        }
    }

    fn is_granted(&self, need: &Need) -> bool {
        self.any_covers(&self.granted, need)
    }

    fn any_covers(&self, permissions: &[Permission], need: &Need) -> bool {
        Permission::READ.covers(need, &self.protection)
            || permissions.iter().any(|permission| permission.covers(need, &self.protection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(asked: &[&str], granted: &[&str]) -> Permissions {
        let parsed =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Permission>>();
        Permissions::new(Asked::These(parsed(asked)), parsed(granted), Protection::default())
    }

    #[test]
    fn a_need_must_be_asked_and_granted() {
        let write = Need::write("out/a.txt");
        assert!(run(&["write"], &["write:out"]).allows(&write));
        assert!(!run(&["write"], &["write:src"]).allows(&write));
        assert!(run(&[], &[]).allows(&Need::read("src/main.rs")));
        assert!(!run(&["read:.env"], &[]).allows(&Need::read(".env")));
        assert!(run(&["read:.env"], &["read:.env"]).allows(&Need::read(".env")));
    }

    #[test]
    fn what_must_be_named_is_not_opened_by_a_plain_grant() {
        let inside = Need::net("10.0.0.1");
        assert!(run(&["net"], &["net:10.0.0.1"]).by_name().allows(&inside));
        assert!(!run(&["net"], &["net", "net:10.0.0.10"]).by_name().allows(&inside));
        assert!(!run(&["net:example.com"], &["net:10.0.0.1"]).by_name().allows(&inside));
        let refused = run(&["net"], &["net"]).by_name().require(&inside, "failed to reach it").unwrap_err();
        assert_eq!(refused.help(), Some("run with --allow net:10.0.0.1"));
    }

    #[test]
    fn a_refusal_names_whose_word_is_missing() {
        let sentence = |asked: &[&str], granted: &[&str]| {
            let refused = run(asked, granted).require(&Need::write("a.txt"), "failed to write a.txt");
            refused.unwrap_err().to_string()
        };
        assert_eq!(sentence(&["write"], &[]), "failed to write a.txt: not permitted; run with --allow write");
        assert_eq!(
            sentence(&[], &["write"]),
            "failed to write a.txt: not permitted; list write under allowed-tools in SKILL.md"
        );
        assert!(sentence(&[], &[]).ends_with("SKILL.md and run with --allow write"));
    }
}
