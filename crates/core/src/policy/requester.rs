//! Who requests permissions: a skill, the file in which it lists them, and the script that adds to them.

use std::borrow::Cow;

use super::permission::Permission;

/// The permissions that a skill requests. Reading the project is always requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPermissions {
    /// An external script in a skill that lists none of our permissions: only the caller's grants decide.
    All,
    /// These permissions, and reading the project.
    Listed(Vec<Permission>),
}

impl RequestedPermissions {
    /// Whether a permission is requested of which this is true.
    pub(super) fn any(&self, is_meant: impl Fn(&Permission) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::Listed(listed) => listed.iter().any(is_meant),
        }
    }

    /// The permissions that are listed: none where all are requested.
    pub fn listed(&self) -> &[Permission] {
        match self {
            Self::All => &[],
            Self::Listed(listed) => listed,
        }
    }
}

/// A skill that requests permissions in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requester {
    /// Its name, which is only known once one skill calls another.
    pub(super) skill: String,
    pub(super) requested: RequestedPermissions,
    /// The file in which it lists its requested permissions, and the key.
    pub(super) declaration: (Cow<'static, str>, &'static str),
    /// The script that requests those after the first so many, such as a plan; known in runs that have an approver.
    pub(super) script: Option<(String, usize)>,
}

impl Requester {
    /// A skill that lists its requested permissions in a `SKILL.md`.
    pub(super) fn new(skill: &str, requested: RequestedPermissions) -> Self {
        let declaration = ("SKILL.md".into(), "allowed-tools");
        Self { skill: skill.to_owned(), requested, declaration, script: None }
    }
}

/// `under allowed-tools in the SKILL.md of x and the SKILL.md of y`; without names if only one skill is in the run.
pub(super) fn declarations_text<'a>(
    requesters: impl Iterator<Item = &'a Requester>,
    is_only_one: bool,
) -> String {
    let mut last = None;
    let place = |requester: &Requester| {
        let (file, key) = &requester.declaration;
        let under = if last.replace(*key) == Some(*key) { String::new() } else { format!("under {key} in ") };
        if is_only_one {
            format!("{under}{file}")
        } else {
            format!("{under}the {file} of {}", requester.skill)
        }
    };
    requesters.map(place).collect::<Vec<_>>().join(" and ")
}
