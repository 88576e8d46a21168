//! Recognises that git found no repository where the project has one outside of it.

use crate::audience::is_for_person;
use crate::hints::words::contains_any;
use crate::outside_repository::{access, is_granted};
use crate::permission_hint::{Help, permission_hint};
use metier_core::host::git::OutsideRepository;
use metier_core::host::{RunContext, SkillContext};

/// What git says where it finds no repository that it can read, in lower case.
const NO_REPOSITORY: &str = "not a git repository|unable to normalize alternate object path|unable to open object pack directory|\
    cannot read commit object|failed to traverse parents of commit|fatal: bad object |\
    /.git': permission denied|unable to access '.git/";

/// The hint for a script that wrote these lines, in which git found no repository: where the project has one, and the grant for it.
pub(crate) fn repository_hint<'a>(
    ctx: &SkillContext,
    mut lines: impl Iterator<Item = &'a str>,
) -> Option<Help> {
    let is_about_repository = |line: &str| {
        let small = line.to_lowercase();
        contains_any(&small, NO_REPOSITORY)
    };
    lines.any(is_about_repository).then_some(())?;
    let unproven = OutsideRepository::find(ctx.project().ok()?.root()).unproven;
    let Some(missing) = unproven.iter().find(|repository| !is_granted(ctx, repository)) else {
        let is_set = is_for_person(ctx) && std::env::var_os("GIT_DIR").is_some();
        let text = "GIT_DIR is set here, and scripts are not given it: git finds the repository of the project and of the folders above it";
        return is_set.then(|| (text.to_owned(), None));
    };
    let (help, hint) = permission_hint(ctx, &access(missing)?)?;
    let text = format!(
        "a script in a sandbox reads no repository outside of the project unless a person says so, and this one lies at {}: {}; {help}",
        missing.folder.display().to_string().escape_debug(),
        missing.reason
    );
    Some((text, hint))
}
