//! The warning for a script that ended well and says of a path of the home folder that nothing is there, where the user has something.

use std::path::Path;

use crate::hints::unseen_file::says_absence;
use crate::hints::user_home::{Homes, folder_grant};
use metier_core::host::SkillContext;

/// How many paths of an output are looked at.
const MAX_PATHS: usize = 64;

/// Only for the person who runs the script. `said` is what it printed.
pub(crate) fn printed_home_warning(ctx: &SkillContext, home: &Path, said: &str) -> Option<String> {
    let homes = Homes::new(ctx, home)?;
    let starts = [Path::new("~"), home, &homes.user];
    let complaints = said.lines().filter(|line| says_absence(&line.to_lowercase()));
    let paths = complaints.flat_map(|line| starts.iter().flat_map(|start| paths_below(line, start)));
    let grant = |path: &str| Some((path.to_owned(), folder_grant(ctx, &homes.user.join(path))?.0));
    let mut missed = paths.take(MAX_PATHS).filter(|path| homes.is_of_user(Path::new(path)));
    let (path, help) = missed.find_map(grant)?;
    Some(format!(
        "the script says that ~/{path} is not there: it is in your home folder, and the script has a home of its own; if it is to read that, \
         {help}"
    ))
}

/// The rest of each path of a line that begins with this folder.
fn paths_below<'a>(line: &'a str, folder: &Path) -> Vec<&'a str> {
    let is_end = |c: char| c.is_whitespace() || "'\"`’,;()[]{}<>".contains(c);
    let Some(folder) = folder.to_str() else { return Vec::new() };
    let rest =
        line.match_indices(folder).filter_map(|(at, _)| line.get(at + folder.len()..)?.strip_prefix('/'));
    rest.filter_map(|rest| rest.split(is_end).next())
        .map(|path| path.trim_end_matches(['.', ':', '/']))
        .filter(|path| !path.is_empty() && !path.split('/').any(|part| part == ".."))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_where_a_sentence_goes_on() {
        for (line, paths) in [
            ("no notes in /home/me/notes.", &["notes"][..]),
            ("\"lane dir missing (/home/me/a/b)\", x", &["a/b"]),
            ("/home/me/a: not found, /home/me/b/: not found", &["a", "b"]),
            ("/home/me/../you and /home/menu/x and /home/me/", &[]),
        ] {
            assert_eq!(paths_below(line, Path::new("/home/me")), paths, "{line}");
        }
        assert_eq!(paths_below("~/.app/x does not exist", Path::new("~")), [".app/x"]);
    }
}
