//! What a run was refused, as data: each with the smallest grant that would allow it, or the reason why there is none.

use serde::Serialize;

/// Something that a script wanted and its sandbox refused, also where the script went on without it.
///
/// In JSON `{permission, reason, count}` with one of `path`, `host`, `name` and `variable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedAccess {
    /// The smallest permission that would have allowed it, such as `write:reports`; `None` where no grant can, and then there is a reason.
    pub permission: Option<String>,
    /// What was refused.
    #[serde(flatten)]
    pub target: RefusedTarget,
    /// Why no permission is named, as part of a sentence; of a variable in a trial, that a random placeholder stood in for it.
    pub reason: Option<String>,
    /// In how many system calls or connections.
    pub count: u64,
}

/// What was refused. The script chose the text: any character may be in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RefusedTarget {
    /// A file or folder: relative to the project, with `~/` in the user's home folder, otherwise absolute.
    Path(String),
    /// A host of the network.
    Host(String),
    /// A program that was looked for on `PATH`.
    Name(String),
    /// An environment variable that the text of the script names, that is set here, and that was not passed.
    Variable(String),
}

/// The texts of an access that the script may have chosen.
pub fn refused_texts(access: &mut RefusedAccess) -> impl Iterator<Item = &mut String> {
    let (RefusedTarget::Path(target)
    | RefusedTarget::Host(target)
    | RefusedTarget::Name(target)
    | RefusedTarget::Variable(target)) = &mut access.target;
    std::iter::once(target).chain(&mut access.permission).chain(&mut access.reason)
}

/// An access that this permission would have allowed.
pub fn refused_with_permission(permission: String, target: RefusedTarget, count: u64) -> RefusedAccess {
    RefusedAccess { permission: Some(permission), target, reason: None, count }
}

/// An access that no permission allows, for this reason.
pub fn refused_with_reason(reason: String, target: RefusedTarget, count: u64) -> RefusedAccess {
    RefusedAccess { permission: None, target, reason: Some(reason), count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_a_key_of_its_own() {
        let json = |refused: RefusedAccess| serde_json::to_value(refused).unwrap();
        let target = RefusedTarget::Path("reports/a.md".into());
        assert_eq!(
            json(refused_with_permission("write:reports".into(), target, 2)),
            serde_json::json!({"permission": "write:reports", "path": "reports/a.md", "reason": null, "count": 2})
        );
        let target = RefusedTarget::Name("cargo".into());
        assert_eq!(
            json(refused_with_reason("it is not installed".into(), target, 1)),
            serde_json::json!({"permission": null, "name": "cargo", "reason": "it is not installed", "count": 1})
        );
    }
}
