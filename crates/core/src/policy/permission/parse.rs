//! Parses a permission from text, and explains why a text is not a permission.

use std::str::FromStr;

use unicode_normalization::UnicodeNormalization;

use super::scope::{HostScope, host_scope};
use super::{KINDS, Permission, ScopeRule, UNSANDBOXED, scope};
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
            (
                ScopeRule::RequiredName | ScopeRule::RequiredVariable | ScopeRule::RequiredSecret,
                None | Some(""),
            ) => {
                return Err(invalid_permission(text, &format!("write {name}:NAME")));
            }
            (ScopeRule::RequiredPath, path) => {
                let path = path.map(|path| path.strip_prefix("~/").unwrap_or(path));
                Some(path.and_then(normalize_scope).filter(|path| !path.is_empty()).ok_or_else(|| {
                    let help =
                        format!("write {name}:PATH, with a path in your home folder that is relative to it");
                    invalid_permission(text, &help)
                })?)
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
            (ScopeRule::OptionalFolder, Some(path)) => Some(normalize_folder(path).ok_or_else(|| {
                invalid_permission(text, &format!("write {name}:FOLDER, with the whole path of a folder"))
            })?),
            (ScopeRule::OptionalHost, Some(scope)) => {
                let host = HostScope::parse(scope).map_err(|help| invalid_permission(text, help))?;
                Some(host_scope(host.host, host.port))
            }
            (ScopeRule::RequiredSecret, Some(scope)) => {
                Some(scope::normalize_secret(scope).map_err(|help| invalid_permission(text, help))?)
            }
            (_, scope) => scope.map(str::to_owned),
        };
        Ok(Self { kind: word, scope })
    }
}

/// Parses a permission that is denied; the error is the end of a sentence. Besides the permissions there are `tool`, `skill` and
/// the other names alone, which deny all of them. What could deny nothing is an error: who denies must know that it holds.
pub fn parse_denied(text: &str) -> Result<Permission, String> {
    let whole = KINDS.into_iter().find(|(_, known, rule)| {
        let is_required = matches!(
            rule,
            ScopeRule::RequiredName
                | ScopeRule::RequiredVariable
                | ScopeRule::RequiredPath
                | ScopeRule::RequiredSecret
        );
        *known == text && is_required
    });
    if let Some((kind, ..)) = whole {
        return Ok(Permission { kind, scope: None });
    }
    let permission: Permission = text.parse().map_err(|error: SkillError| error.message().to_owned())?;
    let (name, scope) = (permission.name(), permission.scope().unwrap_or_default());
    let refused = match name {
        "read" => Some(
            "every skill reads the project, and files with secrets only where a grant names them".to_owned(),
        ),
        "exec" if scope.is_empty() => Some(
            "no process needs it; deny `exec:unsandboxed`, or switch off the runtime `external`".to_owned(),
        ),
        _ if name != "net" && scope.contains('*') => {
            Some(format!("a pattern denies nothing; deny `{name}`, or name each one"))
        }
        "skill" if scope.contains([':', '@', '/']) => {
            Some("name the skill alone, such as `skill:deploy`".to_owned())
        }
        _ => None,
    };
    match refused {
        Some(why) => Err(format!("`{text}` cannot be denied: {why}")),
        None if name == "skill" && !scope.is_empty() => {
            Permission::skill(&scope.nfkc().collect::<String>()).map_err(|error| error.message().to_owned())
        }
        None => Ok(permission),
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

/// `//srv/./git/` as `/srv/git`; `None` for relative paths, the root, `..` and NUL.
fn normalize_folder(path: &str) -> Option<String> {
    let below = normalize_scope(path.strip_prefix('/')?.trim_start_matches('/'))?;
    (!below.is_empty()).then(|| format!("/{below}"))
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
