//! What became of the operations of a description.

/// Operations that became no tool, or became one with less than they have, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationGroup {
    /// The reason, as a sentence about one of them.
    pub reason: String,
    /// How many there are.
    pub count: usize,
    /// The first of them, each with method and path.
    pub examples: Vec<String>,
}

/// The most groups that are told apart, and operations of a group that are listed.
const MAX_GROUPS: usize = 50;
const MAX_EXAMPLES: usize = 5;

/// Adds an operation to the group of a reason.
pub(super) fn count(groups: &mut Vec<OperationGroup>, reason: &str, operation: &str) {
    let reason = if groups.len() < MAX_GROUPS || groups.iter().any(|group| group.reason == reason) {
        reason
    } else {
        "for another reason"
    };
    let at = groups.iter().position(|group| group.reason == reason).unwrap_or(groups.len());
    if at == groups.len() {
        groups.push(OperationGroup { reason: reason.to_owned(), count: 0, examples: Vec::new() });
    }
    let group = &mut groups[at];
    group.count += 1;
    if group.examples.len() < MAX_EXAMPLES {
        group.examples.push(operation.to_owned());
    }
}
