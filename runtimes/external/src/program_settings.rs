//! Settings and data of common programs that lie outside of `/usr`, without which they fail or silently answer otherwise.
//!
//! Every sandboxed script may read what is listed here if it belongs to root and every user of the machine may read it. Who adds a row
//! says why the program needs it, and that no key or password has its place there. Of a folder of which anything is not so, the
//! other files are open one by one.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::system_config::sets_credential;

/// What one row opens.
struct Settings {
    /// Absolute; a `*` in a part stands for any end of a name.
    pattern: &'static str,
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Files whose format has no place for a credential.
    Plain,
    /// Settings among which somebody may have written one: a file that has one stays closed.
    Searched,
    /// The same for files of this name alone.
    SearchedIn(&'static str),
    /// Data that packages make when they are installed: nobody edits it, and there may be much of it.
    Generated,
}

use Content::{Generated, Plain, Searched, SearchedIn};

const SETTINGS: [Settings; 45] = [
    // Fontconfig: which font stands for a name. Without it text is drawn in another font, or not at all, and nothing says so.
    row("/etc/fonts", Plain),
    row("/var/cache/fontconfig", Generated),
    // ImageMagick: types, delegates and limits; `policy.xml` has a place for a passphrase of its cache.
    row("/etc/ImageMagick*", SearchedIn("policy.xml")),
    // PHP has each extension that is not built in by a file of its own; an ini file may hold the password of a database.
    row("/etc/php/*/cli", Searched),
    row("/etc/php/*/mods-available", Searched),
    row("/etc/php.ini", Searched),
    row("/etc/php.d", Searched),
    row("/etc/php8*", Searched),
    // Matplotlib of a distribution.
    row("/etc/matplotlibrc", Plain),
    // R: where its libraries lie; `Renviron` may set tokens.
    row("/etc/R", Searched),
    row("/etc/Rprofile", Searched),
    // TeX: where its files lie, and the formats that it starts from.
    row("/etc/texmf", Plain),
    row("/etc/texlive", Plain),
    row("/var/lib/texmf", Generated),
    row("/var/lib/tex-common", Generated),
    // LibreOffice ends without its registry, of which a part lies here.
    row("/etc/libreoffice", Plain),
    row("/var/lib/libreoffice", Generated),
    row("/var/spool/libreoffice", Generated),
    // Ghostscript and PDF tools: fonts and paper sizes.
    row("/etc/ghostscript", Plain),
    row("/var/lib/ghostscript", Generated),
    row("/etc/papersize", Plain),
    row("/etc/paperspecs", Plain),
    // Catalogs of XML and SGML, by which xmllint and xsltproc find schemas and style sheets without a network.
    row("/etc/xml", Plain),
    row("/etc/sgml", Plain),
    row("/var/lib/xml-core", Generated),
    // Words for spelling.
    row("/etc/dictionaries-common", Plain),
    row("/var/lib/dictionaries-common", Generated),
    row("/var/cache/dictionaries-common", Generated),
    // What a distribution adds to a language's start, and where modules lie.
    row("/etc/perl", Searched),
    row("/etc/python3*", Searched),
    row("/etc/lua", Searched),
    row("/etc/racket", Searched),
    row("/etc/octave*", Searched),
    row("/etc/dotnet", Plain),
    row("/etc/mono", Searched),
    row("/etc/maven", Searched),
    row("/etc/ant", Searched),
    // Where libraries lie, and which of the drivers for graphics and computing there are.
    row("/etc/ld.so.conf*", Plain),
    row("/etc/glvnd", Plain),
    row("/etc/OpenCL", Plain),
    row("/etc/vulkan", Plain),
    // dpkg ends without its settings, even where it is asked for the architecture alone; gdb complains.
    row("/etc/dpkg", Plain),
    row("/etc/gdb", Searched),
    // The names of languages, and which ciphers TLS may use: `openssl.cnf` includes it on some distributions.
    row("/etc/locale.alias", Plain),
    row("/etc/crypto-policies", Plain),
];

const fn row(pattern: &'static str, content: Content) -> Settings {
    Settings { pattern, content }
}

/// Maximum number of files and folders of one row that are looked at; of a larger folder nothing is open.
const MAX_ENTRIES: usize = 512;
/// Maximum number of files that are open one by one, each of which costs a start some system calls.
const MAX_SINGLE_FILES: usize = 32;
/// Larger files, in bytes, are not searched for credentials, and stay closed where one has its place.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What of the settings and data is there and may be read, as few paths as possible.
pub(crate) fn readable_settings() -> Vec<PathBuf> {
    let rows = SETTINGS
        .iter()
        .flat_map(|row| matching(row.pattern).into_iter().map(move |path| (path, row.content)));
    rows.flat_map(|(path, content)| readable_parts(&path, content)).collect()
}

/// The path itself, if all that is there may be read, or else the files in it that may.
fn readable_parts(path: &Path, content: Content) -> Vec<PathBuf> {
    let Some(about) = path.symlink_metadata().ok().filter(is_for_everyone) else { return Vec::new() };
    if about.is_dir() && content == Generated {
        return vec![path.to_owned()];
    }
    let mut files = FileSearch { content, entries: 0, readable: Vec::new(), has_others: false };
    files.look_at(path, &about);
    match files {
        FileSearch { entries, .. } if entries > MAX_ENTRIES => Vec::new(),
        FileSearch { has_others: false, .. } => vec![path.to_owned()],
        FileSearch { mut readable, .. } => {
            readable.truncate(MAX_SINGLE_FILES);
            readable
        }
    }
}

/// The files of a folder, and whether there is anything else in it.
struct FileSearch {
    content: Content,
    entries: usize,
    readable: Vec<PathBuf>,
    has_others: bool,
}

impl FileSearch {
    fn look_at(&mut self, path: &Path, about: &Metadata) {
        if about.is_dir() {
            let Ok(entries) = fs::read_dir(path) else { return self.has_others = true };
            for entry in entries.flatten() {
                self.entries += 1;
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                // A link opens nothing: where it leads has a rule of its own, or none.
                if self.entries > MAX_ENTRIES || is_link {
                    continue;
                }
                match entry.metadata().ok().filter(is_for_everyone) {
                    Some(about) => self.look_at(&entry.path(), &about),
                    None => self.has_others = true,
                }
            }
        } else if about.is_file() && self.has_no_credential(path, about.len()) {
            self.readable.push(path.to_owned());
        } else {
            self.has_others = true;
        }
    }

    fn has_no_credential(&self, path: &Path, length: u64) -> bool {
        let is_searched = match self.content {
            Searched => true,
            SearchedIn(name) => path.ends_with(name),
            Plain | Generated => false,
        };
        let is_free = || {
            length <= MAX_FILE_BYTES
                && fs::read(path).is_ok_and(|text| !sets_credential(&String::from_utf8_lossy(&text)))
        };
        !is_searched || is_free()
    }
}

/// Whether only root may change it, and every user may read it.
fn is_for_everyone(about: &Metadata) -> bool {
    let needed = if about.is_dir() { 0o005 } else { 0o004 };
    about.uid() == 0 && about.mode() & 0o022 == 0 && about.mode() & needed == needed
}

/// The paths that a pattern names and that exist.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((start, end)) => found.iter().flat_map(|folder| names_like(folder, start, end)).collect(),
        };
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

fn names_like(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_like =
        |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_like));
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).take(MAX_ENTRIES).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn no_row_opens_a_place_of_keys_and_passwords() {
        for Settings { pattern, .. } in &SETTINGS {
            for secret in
                ["/etc/shadow", "/etc/ssh", "/etc/sudoers", "/etc/ssl/private", "/etc/pki/tls/private"]
            {
                let fixed = pattern.split('*').next().unwrap();
                assert!(!secret.starts_with(fixed) && !fixed.starts_with(secret), "{pattern}");
            }
            assert!(pattern.starts_with("/etc/") || pattern.starts_with("/var/"), "{pattern}");
        }
    }

    #[test]
    fn a_folder_is_open_as_one_while_everybody_may_read_all_of_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let stage = tempfile::tempdir().unwrap();
        let folder = stage.path().join("php");
        fs::create_dir_all(folder.join("conf.d")).unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("php.ini", "memory_limit = 128M\n; mysqli.default_pw = old\nmysqli.default_pw =\n", 0o644);
        write("conf.d/20-xml.ini", "extension=xml.so\n", 0o644);
        symlink("/etc/shadow", folder.join("conf.d/link.ini")).unwrap();
        let parts = |content| readable_parts(&folder, content);
        assert_eq!(parts(Searched), std::slice::from_ref(&folder));

        write("conf.d/30-db.ini", "pdo.password = hidden\n", 0o644);
        let mut others = [folder.join("php.ini"), folder.join("conf.d/20-xml.ini")];
        others.sort();
        let sorted = |content| {
            let mut found = parts(content);
            found.sort();
            found
        };
        assert_eq!(sorted(Searched), others, "a password");
        assert_eq!(parts(Plain), std::slice::from_ref(&folder));
        write("conf.d/30-db.ini", "x", 0o600);
        assert_eq!(sorted(Plain), others, "a file of root's own");
        fs::remove_file(folder.join("conf.d/30-db.ini")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(parts(Plain).is_empty(), "anybody may change it");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for number in 0..=MAX_ENTRIES {
            write(&format!("conf.d/{number}"), "", 0o644);
        }
        assert!(parts(Plain).is_empty(), "too many");
        assert!(readable_parts(&folder.join("none"), Generated).is_empty());
    }

    #[test]
    fn a_star_is_any_end_of_a_name() {
        assert_eq!(matching("/etc/pass*d"), [PathBuf::from("/etc/passwd")]);
        assert!(matching("/etc/no-such-*/x").is_empty());
        assert_eq!(matching("/usr/*in/env").len(), usize::from(Path::new("/usr/bin/env").exists()));
    }
}
