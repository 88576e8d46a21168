//! The request to prepare the packages of a skill.

use metier_core::policy::{CancelToken, Permission};

/// What [`Engine::prepare`](super::Engine::prepare) prepares, and what it may do for it.
///
/// ```
/// use metier::engine::PrepareRequest;
///
/// let request = PrepareRequest::new("report").script("scripts/plot.py");
/// # let _ = request;
/// ```
#[derive(Clone, Debug)]
pub struct PrepareRequest {
    pub(super) skill: String,
    pub(super) script: Option<String>,
    pub(super) grants: Vec<Permission>,
    pub(super) is_upgrade: bool,
    pub(super) added: Vec<String>,
    pub(super) cancel: CancelToken,
}

impl PrepareRequest {
    /// All scripts of the skill with this name, plain or qualified.
    pub fn new(skill: impl Into<String>) -> Self {
        Self {
            skill: skill.into(),
            script: None,
            grants: Vec::new(),
            is_upgrade: false,
            added: Vec::new(),
            cancel: CancelToken::new(),
        }
    }

    /// Only this script, named as for [`Invocation::script`](super::Invocation::script).
    pub fn script(mut self, script: impl Into<String>) -> Self {
        self.script = Some(script.into());
        self
    }

    /// A permission for the package managers besides the hosts of the user's registries: `net:HOST` for a registry that keeps its
    /// files elsewhere, or `net` where the sandbox cannot restrict the network to hosts.
    pub fn grant(mut self, permission: Permission) -> Self {
        self.grants.push(permission);
        self
    }

    /// Asks the registries again where packages are prepared already, for their newest versions.
    pub fn upgrade(mut self) -> Self {
        self.is_upgrade = true;
        self
    }

    /// Prepares this package as well, for all scripts of the skill, and notes it in the store for as long as the skill has these files:
    /// `NAME` with versions as in a `requirements.txt`, or `NAME@VERSION` of npm.
    pub fn with_package(mut self, package: impl Into<String>) -> Self {
        self.added.push(package.into());
        self
    }

    /// The token that stops it.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }
}
