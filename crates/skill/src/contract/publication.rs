//! What catalogs say about a skill. It changes nothing about what a skill does.

use serde::Serialize;

/// The facts of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Publication {
    /// A label for people; the name is the identity.
    pub display_name: Option<String>,
    /// The function of the skill, such as `git`.
    pub category: Option<String>,
    /// Who published it.
    pub publisher: Option<String>,
    /// When, as written.
    pub published_at: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Its page.
    pub homepage: Option<String>,
}
