//! Parses a permission from text, and explains why a text is not a permission.

use std::str::FromStr;

use super::host_scope::{HostScope, host_scope};
use super::{KINDS, Permission, ScopeRule, UNSANDBOXED};
use crate::error::{ErrorKind, SkillError};
use crate::policy::variable_name::check_variable_name;
use crate::suggestion::{closest, did_you_mean};

impl FromStr for Permission {
    type Err = SkillError;

    /// Parses `name` or `name:scope`; an unknown name or an unsuitable scope is a `usage` error.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        let (name, scope) = match text.split_once(':') {
            Some((name, scope)) => (name, Some(scope)),
            None => (text, None),
        };
        let Some((word, _, rule)) = KINDS.into_iter().find(|(_, known, _)| *known == name) else {
            return Err(unknown_permission(text, name));
        };
        let scope = match (rule, scope) {
            (ScopeRule::RequiredName | ScopeRule::RequiredVariable, None | Some("")) => {
                return Err(invalid_permission(text, &format!("write {name}:NAME")));
            }
            (ScopeRule::NoScope, Some(_)) => {
                return Err(invalid_permission(text, &format!("{name} takes no scope")));
            }
            (ScopeRule::OptionalUnsandboxed, Some(scope)) if scope != UNSANDBOXED => {
                return Err(invalid_permission(text, "the only scope of exec is exec:unsandboxed"));
            }
            (ScopeRule::RequiredVariable, Some(variable)) => {
                check_variable_name(variable).map_err(|reason| invalid_permission(text, &reason))?;
                Some(variable.to_owned())
            }
            (_, Some("")) => return Err(invalid_permission(text, "something must follow the colon")),
            (ScopeRule::OptionalPath, Some(path)) => Some(normalize_scope(path).ok_or_else(|| {
                invalid_permission(
                    text,
                    "the path must be relative to the project and must not lead out of it",
                )
            })?),
            (ScopeRule::OptionalHost, Some(scope)) => {
                let host = HostScope::parse(scope).map_err(|help| invalid_permission(text, help))?;
                Some(host_scope(host.host, host.port))
            }
            (_, scope) => scope.map(str::to_owned),
        };
        Ok(Self { kind: word, scope })
    }
}

/// `./docs//a/` as `docs/a`; `None` for absolute paths, `..` and NUL.
fn normalize_scope(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\0') || path.split('/').any(|part| part == "..") {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Some(parts.join("/"))
}

fn unknown_permission(text: &str, name: &str) -> SkillError {
    let error = SkillError::new(ErrorKind::Usage, format!("no permission is called `{text}`"));
    match closest(name, KINDS.map(|(_, known, _)| known)) {
        Some(known) => error.with_help(did_you_mean(known)),
        None => {
            error.with_help(format!("the permissions are {}", KINDS.map(|(_, known, _)| known).join(", ")))
        }
    }
}

fn invalid_permission(text: &str, help: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("`{text}` is not a permission: {help}"))
}
