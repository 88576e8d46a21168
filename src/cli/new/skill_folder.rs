//! Creates the folder of a new skill: as a whole or not at all, and always inside the project.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::cli::templates::TemplateFile;

/// Creates the folder `name` with these files in `parent`, a path below `base`, which is created if it does not exist.
///
/// Links that lead out of `base` are refused, and so is a `name` that exists.
pub fn create(base: &Path, parent: &str, name: &str, files: &[TemplateFile]) -> io::Result<()> {
    let base = Dir::open_ambient_dir(base, ambient_authority())?;
    base.create_dir_all(parent)?;
    let parent = base.open_dir(parent)?;
    if parent.symlink_metadata(name).is_ok() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let draft = format!(".new-{}", std::process::id());
    parent.create_dir(&draft)?;
    let created = write_files(&parent, &draft, files).and_then(|()| parent.rename(&draft, &parent, name));
    if created.is_err() {
        // The first failure is the one to report.
        let _ = parent.remove_dir_all(&draft);
    }
    created
}

fn write_files(parent: &Dir, draft: &str, files: &[TemplateFile]) -> io::Result<()> {
    let draft = parent.open_dir(draft)?;
    for (path, text) in files {
        if let Some((folder, _)) = path.rsplit_once('/') {
            draft.create_dir_all(folder)?;
        }
        draft.write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> TemplateFile {
        (path.to_owned(), "text".to_owned())
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let base = tempfile::tempdir().unwrap();
        let files = [file("a"), file("a/b")];
        assert!(create(base.path(), "skills", "x", &files).is_err());
        assert_eq!(std::fs::read_dir(base.path().join("skills")).unwrap().count(), 0);
    }

    #[test]
    fn an_existing_folder_is_not_changed() {
        let base = tempfile::tempdir().unwrap();
        create(base.path(), ".", "x", &[file("a")]).unwrap();
        let again = create(base.path(), ".", "x", &[file("b")]).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(!base.path().join("x/b").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_does_not_lead_out_of_the_project() {
        let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), base.path().join(".metier")).unwrap();
        assert!(create(base.path(), ".metier/skills", "x", &[file("a")]).is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
