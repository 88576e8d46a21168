//! The AppArmor profile that allows user namespaces to one program, where the system keeps them from ordinary users.

use std::path::Path;

use metier::error::{ErrorKind, Result, SkillError};

/// The profile of the program at this path. It restricts nothing: it allows user namespaces, and all else as before.
pub(super) fn apparmor_profile(program: &Path) -> Result<String> {
    let path = std::fs::canonicalize(program)
        .map_err(|source| SkillError::io(format!("failed to find {}", program.display()), source))?;
    let pattern = path.to_str().and_then(quote).ok_or_else(|| {
        let shown = path.to_string_lossy();
        let sentence = format!("the path {} cannot stand in an AppArmor profile", shown.escape_debug());
        SkillError::new(ErrorKind::Usage, sentence).with_help("install the program at another path")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(format!(
        "# Allows user namespaces to one program, whose sandbox is made of them, where AppArmor keeps them from ordinary users
# (kernel.apparmor_restrict_unprivileged_userns=1). Scripts in the sandbox get none. Whoever can change the program gets them too.
#
# Write this to /etc/apparmor.d/{name}, and load it: apparmor_parser -r /etc/apparmor.d/{name}
abi <abi/4.0>,
include <tunables/global>

profile {name} {pattern} flags=(unconfined) {{
  userns,

  include if exists <local/{name}>
}}"
    ))
}

/// The path as a pattern that only this path matches; `None` if there is none.
fn quote(path: &str) -> Option<String> {
    if path.contains(|c: char| c.is_control()) {
        return None;
    }
    let escape = |c: char| if r#"*?[]{}^,"\@"#.contains(c) { format!("\\{c}") } else { c.to_string() };
    Some(format!("\"{}\"", path.chars().map(escape).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_so_that_no_other_matches() {
        assert_eq!(quote("/usr/bin/metier").unwrap(), r#""/usr/bin/metier""#);
        assert_eq!(quote(r"/opt/a b/{x}*").unwrap(), r#""/opt/a b/\{x\}\*""#);
        assert_eq!(quote("/a\nb"), None);
    }
}
