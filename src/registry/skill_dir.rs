//! Opens and lists folders, and opens a `SKILL.md` through the folder's handle. Nothing here blocks.

mod entry;
#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use portable::SkillDir;
#[cfg(unix)]
pub(super) use unix::SkillDir;

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io::{self, Read};
    use std::ops::ControlFlow;
    use std::os::unix::fs::symlink;

    use super::*;
    use metier_core::host::files::EntryKind;

    macro_rules! check_names_and_files {
        ($opened:ty) => {{
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("skill");
            fs::create_dir_all(path.join("docs")).unwrap();
            fs::write(parent.path().join("secret"), "secret").unwrap();
            fs::write(path.join("docs/real.md"), "real").unwrap();
            symlink("docs/real.md", path.join("inside")).unwrap();
            symlink("../secret", path.join("outside")).unwrap();
            symlink("/dev/zero", path.join("device")).unwrap();
            let mut opened = <$opened>::open(&path).unwrap();
            let mut names = Vec::new();
            let mut list = |name: &std::ffi::OsStr, kind| {
                names.push((name.to_owned(), kind));
                ControlFlow::Continue(())
            };
            opened.for_each_entry(&mut list).unwrap();
            names.sort_by(|a, b| a.0.cmp(&b.0));
            let kinds: Vec<_> = names.iter().map(|(name, kind)| (name.to_str().unwrap(), *kind)).collect();
            let link = EntryKind::Symlink;
            assert_eq!(
                kinds,
                [("device", link), ("docs", EntryKind::Dir), ("inside", link), ("outside", link)]
            );
            let mut text = String::new();
            opened.open_file("inside").unwrap().0.read_to_string(&mut text).unwrap();
            assert_eq!(text, "real");
            for name in ["outside", "device", "docs", "none"] {
                assert!(opened.open_file(name).is_err(), "{name}");
            }
            assert!(<$opened>::open(&path.join("none")).is_err());
            assert_eq!(
                <$opened>::open(&path.join("inside")).err().unwrap().kind(),
                io::ErrorKind::NotADirectory
            );
        }};
    }

    #[test]
    fn both_implementations_list_alike_and_keeps_links_inside() {
        check_names_and_files!(unix::SkillDir);
        check_names_and_files!(portable::SkillDir);
    }
}
