//! What references of a declared call name.

use metier_core::template::{PathSegment, Reference, ReferenceRoot};

/// The name by which references mean the settings of the skill.
pub const CONFIG: &str = "config";
/// The name by which they mean its secrets.
pub const SECRETS: &str = "secrets";
/// The name by which they mean the response.
pub const RESPONSE: &str = "response";

/// The variable and the first name after it: `("config", "region")` of `$config.region`.
pub fn named_value(reference: &Reference) -> Option<(&str, &str)> {
    match (&reference.root, reference.path.first()?) {
        (ReferenceRoot::Variable(root), PathSegment::Field(key)) => Some((root, key)),
        _ => None,
    }
}
