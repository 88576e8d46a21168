//! Skills that lie in folders that are not read: in the folder somebody works in, below the project, and in those of other clients.

use std::path::{Path, PathBuf};

use metier::engine::Finding;
use metier::error::{ErrorKind, SkillError};
use metier::registry::{Registry, Root, Roots};
use metier::skill::Severity;

use super::session::Session;

/// A folder of skills that is not read.
struct UnreadRoot {
    root: Root,
    /// The options with which a command reads it.
    options: String,
}

/// The error with the place of the skill, where no skill of its name is known and one lies in a folder that is not read.
pub fn with_place_of_skill(error: SkillError, name: &str, session: &Session) -> SkillError {
    // It may be about a skill that the named one calls.
    let is_known = || session.roots().is_ok_and(|roots| Registry::discover(&roots).find(name).is_ok());
    if error.kind() != ErrorKind::UnknownSkill || is_known() {
        return error;
    }
    for UnreadRoot { root, options } in unread_roots(session) {
        if let Ok(skill) = registry(&root).find(name) {
            let help = format!("it lies in {}, which is not read here: run with {options}", skill.path());
            return error.with_help(help).with_hint(None);
        }
    }
    error
}

/// For each folder of skills that is not read, which skills lie there.
pub fn findings(session: &Session) -> Vec<Finding> {
    let finding = |UnreadRoot { root, options }: UnreadRoot| {
        let registry = registry(&root);
        let names: Vec<&str> = registry.skills().iter().map(metier::registry::Skill::name).collect();
        let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MAX_NAMES);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let message = format!("skills in {} are not read here: {shown}{more}", root.path.display());
        (!names.is_empty())
            .then(|| Finding::new(Severity::Info, message, format!("to read them, run with {options}")))
    };
    unread_roots(session).into_iter().filter_map(finding).collect()
}

/// Whether a shell reads the character as it is.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')
}

/// The most skills of a folder that are named.
const MAX_NAMES: usize = 8;

fn registry(root: &Root) -> Registry {
    Registry::discover(&Roots::empty().with(root.clone()))
}

/// The folders of skills of the project, of the folder somebody works in and of those between them, nearest first, that no root is.
fn unread_roots(session: &Session) -> Vec<UnreadRoot> {
    let (Ok(project), Ok(roots)) = (session.project(), session.roots()) else { return Vec::new() };
    let here = std::env::current_dir().unwrap_or_else(|_| project.clone());
    let resolve = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (project, here) = (resolve(&project), resolve(&here));
    let roots: Vec<PathBuf> = roots.iter().map(|root| resolve(&root.path)).collect();
    let below = here.ancestors().take_while(|folder| folder.starts_with(&project) && *folder != project);
    let folders = below.map(Path::to_owned).chain([project.clone()]);
    let of_folder = |folder: PathBuf| {
        let standard = Roots::empty().with_project(session.product(), &folder);
        let own: Vec<Root> = standard.iter().cloned().collect();
        let all: Vec<Root> = standard.with_compat().iter().cloned().collect();
        let option = (folder != project).then(|| match folder.to_str() {
            _ if folder == here => "--project .".to_owned(),
            Some(path) if path.chars().all(is_plain) => format!("--project {path}"),
            _ => format!("--project '{}'", folder.display()),
        });
        all.into_iter().map(move |root| {
            let is_compat = own.iter().all(|known| known.path != root.path);
            let compat = is_compat.then(|| "--compat".to_owned());
            let options = option.iter().cloned().chain(compat).collect::<Vec<_>>().join(" ");
            UnreadRoot { root, options }
        })
    };
    let found = folders.flat_map(of_folder).filter(|unread| unread.root.path.is_dir());
    found.filter(|unread| !roots.contains(&resolve(&unread.root.path))).collect()
}
