//! System configuration files without which common programs fail.
//!
//! Every sandboxed script may read a file that is listed here, belongs to root, and is readable by every user of the machine.
//! The list names settings file by file: a folder could get a file with a password tomorrow. A file where a password may
//! stand beside settings is opened only if it has none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The system's release, the databases of `file` and `man`, line editing, the names of ports.
const CONFIG_FILES: [&str; 16] = [
    "/etc/debian_version",
    "/etc/lsb-release",
    "/etc/redhat-release",
    "/etc/fedora-release",
    "/etc/centos-release",
    "/etc/system-release",
    "/etc/alpine-release",
    "/etc/arch-release",
    "/etc/SuSE-release",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/manpath.config",
    "/etc/man_db.conf",
    "/etc/inputrc",
    "/etc/services",
    "/etc/protocols",
];

/// If these files exist but cannot be read, Git exits and wget complains. A URL in them may contain a name and a password.
const FILES_WITH_CREDENTIALS: [&str; 2] = [GITCONFIG, "/etc/wgetrc"];
const GITCONFIG: &str = "/etc/gitconfig";

/// Where Debian and its derivatives install Java, whose settings are symlinks from there to a folder in `/etc` for each version.
const JVM_DIR: &str = "/usr/lib/jvm";

/// The symlink that leads to such a folder.
const JAVA_SECURITY_FILE: &str = "security/java.security";

/// What Java reads in such a folder; never the passwords of `management`.
const JAVA_CONFIG_FILES: [&str; 17] = [
    JAVA_SECURITY_FILE,
    "security/java.policy",
    "security/default.policy",
    "security/nss.cfg",
    "security/blocked.certs",
    "security/blacklisted.certs",
    "security/public_suffix_list.dat",
    "security/policy/unlimited/default_US_export.policy",
    "security/policy/unlimited/default_local.policy",
    "security/policy/limited/default_US_export.policy",
    "security/policy/limited/default_local.policy",
    "security/policy/limited/exempt_local.policy",
    "net.properties",
    "logging.properties",
    "management/management.properties",
    "jfr/default.jfc",
    "jfr/profile.jfc",
];

/// Readme files beside them, which hold no settings.
const JAVA_README: &str = "security/policy/README.txt";

/// Folders of such settings: one rule instead of 13, each of which costs a start about six system calls; nothing else is in them.
const JAVA_CONFIG_DIRS: [&str; 2] = ["security", "jfr"];

/// Maximum number of Java folders that are scanned.
const MAX_JVMS: usize = 32;

/// Maximum number of entries in such a folder.
const MAX_DIR_ENTRIES: usize = 64;

/// Larger files, in bytes, are not settings.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Those of the files that exist and may be read.
pub(super) fn readable_config() -> Vec<PathBuf> {
    let named = CONFIG_FILES.into_iter().map(PathBuf::from).filter(|path| is_world_readable(path));
    let java = java_etc_dirs().into_iter().flat_map(|folder| java_config(&folder));
    let with_addresses = FILES_WITH_CREDENTIALS.into_iter().map(PathBuf::from);
    let with_addresses = with_addresses.filter(|path| is_world_readable(path) && has_no_credentials(path));
    named.chain(java).chain(with_addresses).collect()
}

/// Whether Git finds its file among these paths, or has none.
pub(super) fn shows_gitconfig(readable: &[PathBuf]) -> bool {
    let file = Path::new(GITCONFIG);
    readable.iter().any(|path| path == file) || file.symlink_metadata().is_err()
}

/// Whether this file belongs to root and every user may read it.
fn is_world_readable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| {
        about.is_file() && about.uid() == 0 && about.mode() & 0o004 != 0 && about.len() <= MAX_FILE_BYTES
    })
}

/// Names of settings that hold a credential or the path of one, in lower case.
const CREDENTIAL_WORDS: [&str; 10] = [
    "password",
    "passwd",
    "token",
    "secret",
    "extraheader",
    "authorization",
    "cookie",
    "private_key",
    "credential",
    "include",
];

/// Whether no setting in this file holds a credential, or a URL with one; comments count as well.
fn has_no_credentials(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| {
        let text = text.to_lowercase();
        text.lines().all(|line| {
            // A mail address in a comment does not count.
            let has_address =
                line.contains('@') && (!line.trim_start().starts_with('#') || line.contains("://"));
            !has_address && !CREDENTIAL_WORDS.iter().any(|name| line.contains(name))
        })
    })
}

/// Names of settings that hold a credential, in lower case.
const CREDENTIAL_SETTINGS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "_pw",
    "token",
    "secret",
    "credential",
    "authorization",
    "api_key",
    "apikey",
    "privatekey",
    "private_key",
];

/// Whether a setting in this text has a value that is a credential, or a URL with one. Comments, declarations and settings without a value
/// do not count.
pub(super) fn sets_credential(text: &str) -> bool {
    let text = without(&without(&text.to_lowercase(), "<!--", "-->"), "<!doctype", "]>");
    let is_comment = |line: &&str| line.starts_with(['#', ';', '!', '%']) || line.starts_with("//");
    text.lines().map(str::trim).filter(|line| !is_comment(line)).any(|line| {
        let has_value = !line.ends_with(['=', ':']);
        let is_named = CREDENTIAL_SETTINGS.iter().any(|name| names_setting(line, name));
        let has_login = line
            .split("://")
            .skip(1)
            .any(|rest| rest.split(['/', ' ', '"', '\'']).next().is_some_and(|host| host.contains('@')));
        has_value && is_named || has_login
    })
}

/// Whether a line has this word, and not only the beginning of another one, such as `tokenizer`.
fn names_setting(line: &str, word: &str) -> bool {
    let continues = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() && c != 's');
    line.match_indices(word).any(|(at, _)| !continues(&line[at + word.len()..]))
}

/// The text without what stands between these.
fn without(text: &str, start: &str, end: &str) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(end).map_or("", |(_, rest)| rest))
}

/// The folders in `/etc` that hold the settings of the installed Java versions.
fn java_etc_dirs() -> BTreeSet<PathBuf> {
    let installed = fs::read_dir(JVM_DIR).into_iter().flatten().filter_map(Result::ok).take(MAX_JVMS);
    let settings =
        installed.filter_map(|java| fs::read_link(java.path().join("conf").join(JAVA_SECURITY_FILE)).ok());
    let folders = settings.filter_map(|link| link.ancestors().nth(2).map(Path::to_path_buf));
    folders.filter(|folder| is_java_etc_dir(folder)).collect()
}

/// Whether it is `/etc/java-17-openjdk` or the like.
fn is_java_etc_dir(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    folder.parent() == Some(Path::new("/etc")) && name.is_some_and(|name| name.starts_with("java-"))
}

/// The readable paths of such a folder, as few as possible.
fn java_config(folder: &Path) -> Vec<PathBuf> {
    // The list of virtual machines is in a folder named after the processor.
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let machines = format!("jvm-{processor}.cfg");
    let settings = JAVA_CONFIG_FILES.into_iter().chain([machines.as_str()]).map(|name| folder.join(name));
    let settings: Vec<PathBuf> = settings.filter(|path| is_world_readable(path)).collect();
    let readme = folder.join(JAVA_README);
    let is_known =
        |path: &Path| settings.iter().any(|known| known == path) || path == readme && is_world_readable(path);
    let whole = JAVA_CONFIG_DIRS.into_iter().map(|name| folder.join(name));
    let whole: Vec<PathBuf> = whole.filter(|folder| contains_only(folder, &is_known)).collect();
    let apart = settings.iter().filter(|path| !whole.iter().any(|folder| path.starts_with(folder)));
    apart.chain(&whole).cloned().collect()
}

/// Whether only root may write to this folder, and everything in it is such a folder as well or a known file.
fn contains_only(folder: &Path, is_known: &impl Fn(&Path) -> bool) -> bool {
    let is_roots = |about: &fs::Metadata| about.is_dir() && about.uid() == 0 && about.mode() & 0o022 == 0;
    let Ok(entries) = fs::read_dir(folder) else { return false };
    folder.symlink_metadata().is_ok_and(|about| is_roots(&about))
        && entries.enumerate().all(|(number, entry)| {
            number < MAX_DIR_ENTRIES
                && entry.is_ok_and(|entry| match entry.file_type() {
                    Ok(kind) if kind.is_dir() => contains_only(&entry.path(), is_known),
                    Ok(kind) => kind.is_file() && is_known(&entry.path()),
                    Err(_) => false,
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_password_beside_settings_keeps_the_file_shut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        for text in [
            "[url \"https://ann:hidden@host/\"]\n\tinsteadOf = https://host/\n",
            "[http]\n\textraHeader = Authorization: Basic aGlkZGVu\n",
            "http_password = hidden\n",
            "HTTP_PASSWD=hidden\n",
            "https_proxy = http://ann:hidden@proxy:80/\n",
            "# https_proxy = http://ann:hidden@proxy:80/\n",
            "[credential]\n\thelper = store\n",
            "[include]\n\tpath = /root/more\n",
            "header = Cookie: id=hidden\n",
            "header = Authorization: Basic aGlkZGVu\n",
        ] {
            fs::write(&path, text).unwrap();
            assert!(!has_no_credentials(&path), "{text}");
        }
        for text in
            ["", "[safe]\n\tdirectory = *\n", "# From: Ann <ann@host>\npassive_ftp = on\n", "tries = 3\n"]
        {
            fs::write(&path, text).unwrap();
            assert!(has_no_credentials(&path), "{text}");
        }
        fs::write(&path, b"\xff").unwrap();
        assert!(!has_no_credentials(&path) && !has_no_credentials(&folder.path().join("none")));
    }

    #[test]
    fn a_setting_with_a_credential_is_one_and_a_comment_or_an_empty_one_is_none() {
        for text in [
            "mysqli.default_pw = hidden",
            "GITHUB_TOKEN=ghp_1",
            "<policy domain=\"cache\" name=\"shared-secret\" value=\"hidden\"/>",
            "<!-- a --> <password>hidden</password>",
            "<!-- never closed\n--> <x/>\nhttp.proxy=http://ann:hidden@proxy:80/",
            "  password: hidden",
            "<!DOCTYPE x [ <!ATTLIST x y NMTOKEN #IMPLIED> ]><x secret=\"y\"/>",
            "dbpasswords = a, b",
        ] {
            assert!(sets_credential(text), "{text}");
        }
        for text in [
            "",
            "mysqli.default_pw =\nsession.use_cookies = 1",
            "; password = hidden\n# token: x\n// secret x",
            "<!-- <password>\nhidden</password> --><x/>",
            "url = https://example.com/a@b",
            "extension=tokenizer.so",
            "<!DOCTYPE x [ <!ATTLIST x token CDATA #IMPLIED> ]><x/>",
            "\u{fffd}",
        ] {
            assert!(!sets_credential(text), "{text}");
        }
    }

    #[test]
    fn only_what_every_user_may_read_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(
            !is_world_readable(&path)
                && !is_world_readable(folder.path())
                && !is_world_readable(&folder.path().join("none"))
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(is_world_readable(&path), rustix::process::geteuid().is_root());
        for secret in ["/etc/shadow", "/etc/gshadow", "/etc/ssh/ssh_host_ed25519_key"] {
            assert!(!is_world_readable(Path::new(secret)), "{secret}");
        }
    }

    #[test]
    fn what_is_read_lies_in_the_configuration_and_is_named_file_by_file() {
        for path in readable_config() {
            let is_of_java = JAVA_CONFIG_DIRS.iter().any(|name| path.ends_with(name));
            assert!(path.starts_with("/etc") && (path.is_file() || is_of_java), "{}", path.display());
            let path = path.to_str().unwrap();
            for secret in ["shadow", "/ssh/", "private", "jmxremote", "passw"] {
                assert!(!path.contains(secret), "{path}");
            }
        }
        assert!(is_java_etc_dir(Path::new("/etc/java-17-openjdk")));
        for folder in ["/etc", "/etc/ssh", "/root/java-17", "/etc/x/java-17", "/"] {
            assert!(!is_java_etc_dir(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn a_folder_of_java_is_open_as_one_while_nothing_else_lies_in_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let stage = tempfile::tempdir().unwrap();
        let folder = stage.path().join("java-17");
        fs::create_dir_all(folder.join("security/policy/limited")).unwrap();
        let policy = folder.join("security/java.policy");
        for name in [JAVA_SECURITY_FILE, "security/java.policy", JAVA_README, "net.properties", "unknown"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        let whole = [folder.join("net.properties"), folder.join("security")];
        let apart = [folder.join(JAVA_SECURITY_FILE), policy.clone(), folder.join("net.properties")];
        assert_eq!(java_config(&folder), whole);

        let stranger = folder.join("security/policy/limited/token");
        fs::write(&stranger, "x").unwrap();
        assert_eq!(java_config(&folder), apart, "a file that is not known");
        fs::remove_file(&stranger).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &stranger).unwrap();
        assert_eq!(java_config(&folder), apart, "a link");
        fs::remove_file(&stranger).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(java_config(&folder), [apart[0].clone(), apart[2].clone()], "a file that is root's alone");
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(folder.join("security"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(java_config(&folder), apart, "a folder in which everybody may write");
        fs::set_permissions(folder.join("security"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(java_config(&folder), whole);
    }
}
