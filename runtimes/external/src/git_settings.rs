//! What git has to know of the user's configuration, which no script can read: that a repository of somebody else is safe, and who commits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

use metier_core::host::git::{settings_of_repository, settings_of_user};
use metier_core::host::{RunMessages, SkillContext};
use metier_core::policy::Access;

const SAFE: &str = "safe.directory";
const IDENTITY: [&str; 2] = ["user.name", "user.email"];

/// The variables by which git has these settings, if the run needs any.
pub(crate) fn variables(ctx: &SkillContext, project: &Path) -> BTreeMap<OsString, OsString> {
    let mut settings = Vec::new();
    if is_of_somebody_else(project) {
        settings
            .extend(safe_folder(&settings_of_user(&[SAFE]), project).map(|value| (SAFE.to_owned(), value)));
    }
    if ctx.permissions().allows(&Access::write(".git")) {
        settings.extend(identity(&project.join(".git")));
    }
    settings.retain(|(_, value)| !ctx.redaction().contains_secret(value));
    let count = settings.len();
    let pairs = settings.into_iter().enumerate().flat_map(|(index, (key, value))| {
        [(format!("GIT_CONFIG_KEY_{index}"), key), (format!("GIT_CONFIG_VALUE_{index}"), value)]
    });
    let count = (count > 0).then(|| ("GIT_CONFIG_COUNT".to_owned(), count.to_string()));
    pairs.chain(count).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Git refuses such a repository unless its user has said that it is safe.
fn is_of_somebody_else(project: &Path) -> bool {
    let user = geteuid().as_raw();
    let paths = [project.to_owned(), project.join(".git")];
    paths.iter().any(|path| path.symlink_metadata().is_ok_and(|about| about.uid() != user))
}

/// The value that says so of the project; an empty one revokes those before it.
fn safe_folder(settings: &[(String, String)], project: &Path) -> Option<String> {
    let is_match = |value: &str| match value.strip_suffix("/*") {
        Some(above) => project.ancestors().skip(1).any(|folder| folder == Path::new(above)),
        None => project == Path::new(value),
    };
    let mut found = None;
    for (_, value) in settings {
        match value.as_str() {
            "" => found = None,
            "*" => found = Some(value.clone()),
            value if is_match(value) => found = found.or_else(|| Some(project.to_str()?.to_owned())),
            _ => {}
        }
    }
    found
}

/// The user's name and address, as far as the repository has no others.
fn identity(git: &Path) -> Vec<(String, String)> {
    let own = settings_of_repository(git, &IDENTITY);
    let users = settings_of_user(&IDENTITY);
    let of_user = |key: &&str| users.iter().rev().find(|(known, _)| known == key).cloned();
    let missing = IDENTITY.iter().filter(|key| own.iter().all(|(known, _)| known != *key));
    missing.filter_map(of_user).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_safe_by_its_path_by_a_folder_above_or_as_all_are() {
        let safe = |values: &[&str]| {
            let settings: Vec<_> =
                values.iter().map(|value| (SAFE.to_owned(), (*value).to_owned())).collect();
            safe_folder(&settings, Path::new("/srv/a/b"))
        };
        assert_eq!(safe(&["/srv/a/b"]).as_deref(), Some("/srv/a/b"));
        assert_eq!(safe(&["/srv/*"]).as_deref(), Some("/srv/a/b"));
        assert_eq!(safe(&["/other", "*"]).as_deref(), Some("*"));
        for values in
            [&[][..], &["/srv/a"], &["/srv/a/b/*"], &["/srv/a/b", ""], &["*", "", "/x"], &["/srv/a/bc"]]
        {
            assert_eq!(safe(values), None, "{values:?}");
        }
    }
}
