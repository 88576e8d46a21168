//! What texts declare about packages: the requirements of a script or a project, and the registries of the user.

/// The requirements in a text: each with the line in which it stands, and the versions of Python.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DeclaredRequirements {
    pub(super) dependencies: Vec<(usize, String)>,
    pub(super) requires_python: Option<String>,
}

/// What a configuration of uv says about registries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UvSettings {
    pub(super) index: Option<String>,
    pub(super) extra_indexes: Vec<String>,
    pub(super) find_links: Vec<String>,
}
