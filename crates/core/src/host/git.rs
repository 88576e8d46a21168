//! Finds files and directories that git reads or runs: the directories that a `.git` refers to, repositories under any name, the
//! repository of a project that lies outside of it, and the programs and files that a git configuration names.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{File, OpenOptions};

use crate::host::HostPaths;

/// Maximum bytes read of a file that names a folder.
const MAX_PATH_BYTES: u64 = 4096;
/// Maximum bytes read of a configuration.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Maximum number of files that one configuration may include, itself counted.
const MAX_CONFIG_FILES: usize = 64;

/// The canonical folders and files that a `.git` refers to: the target of a symbolic link, the `PATH` of a file with `gitdir:
/// PATH`, and the folder that a worktree shares.
pub fn linked_paths(git: &Path, paths: &HostPaths) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let is_link = paths.symlink_metadata(git).is_ok_and(|about| about.is_symlink());
    let Some(real) = paths.canonicalize(git).ok() else { return found };
    let above = git.parent().unwrap_or(Path::new("/"));
    let own = path_in_file(&real, above, b"gitdir: ", paths);
    let shared_in = own.clone().unwrap_or_else(|| real.clone());
    let shared = path_in_file(&shared_in.join("commondir"), &shared_in, b"", paths);
    found.extend(is_link.then_some(real));
    found.extend(own);
    found.extend(shared);
    found
}

/// What of the repository of a project lies outside of the project. All paths are canonical.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OutsideRepository {
    /// The folders of a linked worktree whose repository points back to the project: that of the worktree, and the shared one.
    pub worktree: Vec<PathBuf>,
    /// What nothing but the project itself, or a folder above it, says to be its repository.
    pub unproven: Vec<UnprovenRepository>,
}

/// A repository of which a person has to say whether a project may use it.
#[derive(Debug, PartialEq, Eq)]
pub struct UnprovenRepository {
    /// The folder of git.
    pub folder: PathBuf,
    /// The file with `gitdir:`, outside of the project as well, that leads there.
    pub git_file: Option<PathBuf>,
    /// How the project comes to it, the end of a sentence about it.
    pub reason: &'static str,
}

/// Maximum number of repositories that lend objects to one another.
const MAX_LENDERS: usize = 8;

impl OutsideRepository {
    /// Looks at the `.git` of a project, or of the nearest folder above it that has one. `project` is canonical.
    pub fn find(project: &Path) -> Self {
        let git = project.join(".git");
        let Ok(about) = git.symlink_metadata() else { return Self::above(project) };
        let targets: Vec<PathBuf> = linked_paths(&git, &HostPaths::default());
        let is_outside = |path: &PathBuf| !path.starts_with(project);
        if let [own, shared] = targets.as_slice()
            && about.is_file()
            && targets.iter().all(is_outside)
            && is_linked_worktree(&git, own, shared)
        {
            return Self { worktree: outermost(&targets), unproven: outside_parts(shared, project) };
        }
        let reason = if about.is_symlink() {
            "the .git of the project is a link"
        } else {
            "the .git of the project leads there, and nothing there leads back"
        };
        let named =
            outermost(&targets).into_iter().filter(is_outside).filter(|folder| is_repository_at(folder));
        let named = named.map(|folder| UnprovenRepository { folder, git_file: None, reason });
        let shared = targets.last().filter(|_| !about.is_dir()).cloned().unwrap_or(git);
        Self { worktree: Vec::new(), unproven: named.chain(outside_parts(&shared, project)).collect() }
    }

    /// Whether a path is one of them.
    pub fn includes(&self, path: &Path) -> bool {
        let unproven = self.unproven.iter().flat_map(|one| std::iter::once(&one.folder).chain(&one.git_file));
        self.worktree.iter().chain(unproven).any(|known| known == path)
    }

    /// The repository of a folder above the project.
    fn above(project: &Path) -> Self {
        let above = project.ancestors().skip(1).filter(|folder| folder.parent().is_some());
        let git = above.map(|folder| folder.join(".git")).find(|git| git.symlink_metadata().is_ok());
        let Some(git) = git else { return Self::default() };
        let targets = linked_paths(&git, &HostPaths::default());
        let is_plain = git.symlink_metadata().is_ok_and(|about| about.is_dir());
        let shared = targets.last().filter(|_| !is_plain).unwrap_or(&git).clone();
        let folders = if is_plain { vec![git.clone()] } else { outermost(&targets) };
        let reason = "it is that of a folder above the project";
        let named = folders
            .into_iter()
            .filter(|folder| is_repository_at(folder))
            .map(|folder| UnprovenRepository { folder, git_file: (!is_plain).then(|| git.clone()), reason });
        Self { worktree: Vec::new(), unproven: named.chain(outside_parts(&shared, project)).collect() }
    }
}

/// Whether this `.git` is that of a linked worktree: its own folder lies among the worktrees of the shared one, names this `.git`, and
/// all of them have one owner. A project that was unpacked here can say anything in its `.git`, and nothing there.
fn is_linked_worktree(git: &Path, own: &Path, shared: &Path) -> bool {
    let names = own.join("gitdir");
    let back = target_in_file(&names, own, b"", &HostPaths::default());
    own.parent() == Some(&*shared.join("worktrees"))
        && back.is_some_and(|back| back == *git)
        && is_repository_at(own)
        && is_repository_at(shared)
        && have_one_owner(&[git, own, &names, shared])
}

/// What a repository has outside of the project: parts that are links, and objects that it borrows.
fn outside_parts(repository: &Path, project: &Path) -> Vec<UnprovenRepository> {
    let mut found = linked_parts(repository, project);
    let is_inside = |folder: &Path, outer: &[UnprovenRepository]| {
        outer.iter().any(|known| folder.starts_with(&known.folder))
    };
    for lender in lenders(repository, project) {
        if !is_inside(&lender.folder, &found) {
            found.push(lender);
        }
    }
    found
}

/// Parts of a repository that tools replace by links.
const LINKED_PARTS: [&str; 10] = [
    "HEAD",
    "config",
    "info",
    "logs",
    "objects",
    "objects/info",
    "objects/pack",
    "packed-refs",
    "refs",
    "worktrees",
];

/// The repositories outside of the project to which links of this one lead, and folders of objects that lie by themselves. Other targets are
/// ignored: a link in an archive may lead anywhere.
fn linked_parts(repository: &Path, project: &Path) -> Vec<UnprovenRepository> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for part in LINKED_PARTS.map(|part| repository.join(part)) {
        if !part.is_symlink() {
            continue;
        }
        let Ok(target) = std::fs::canonicalize(&part) else { continue };
        let above = target.ancestors().skip(1).take(2).find(|folder| is_repository_at(folder));
        let folder = above.or_else(|| is_object_store(&target).then_some(&*target)).map(Path::to_owned);
        folders
            .extend(folder.filter(|folder| !folder.starts_with(project) && !repository.starts_with(folder)));
    }
    let reason = "parts of the repository of the project are links that lead there";
    let folders = outermost(&folders).into_iter().take(MAX_LENDERS);
    folders.map(|folder| UnprovenRepository { folder, git_file: None, reason }).collect()
}

/// Whether a folder has the objects of a repository, or its packs, and nothing else.
fn is_object_store(folder: &Path) -> bool {
    /// More folders than that no repository has: one for each first byte of a name, and two others. Packs are rarely more than that.
    const MAX_ENTRIES: usize = 1000;
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let names: Option<Vec<String>> =
        entries.take(MAX_ENTRIES + 1).map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let Some(names) = names.filter(|names| !names.is_empty() && names.len() <= MAX_ENTRIES) else {
        return false;
    };
    let is_of_objects = |name: &String| {
        let is_first_byte = name.len() == 2 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_first_byte || ["info", "pack"].contains(&name.as_str())
    };
    let is_of_packs =
        |name: &String| ["pack-", "multi-pack-index"].iter().any(|start| name.starts_with(start));
    let has = |name: &str| names.iter().any(|known| known == name);
    (has("info") && has("pack") && names.iter().all(is_of_objects)) || names.iter().all(is_of_packs)
}

/// The folders of objects that a repository borrows from others, outside of the project.
fn lenders(repository: &Path, project: &Path) -> Vec<UnprovenRepository> {
    let mut found: Vec<UnprovenRepository> = Vec::new();
    let mut objects = vec![repository.join("objects")];
    while let Some(folder) = objects.pop() {
        let Some(text) = read_prefix(&folder.join("info/alternates"), MAX_PATH_BYTES, &HostPaths::default())
        else {
            continue;
        };
        let lines =
            text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let named = lines.filter_map(|line| std::fs::canonicalize(folder.join(to_os_str(line)?)).ok());
        for lender in named.filter(|lender| lender.ends_with("objects") && !lender.starts_with(project)) {
            let is_new = !found.iter().any(|known| known.folder == lender);
            if is_new && found.len() < MAX_LENDERS && lender.parent().is_some_and(is_repository_at) {
                let reason = "the repository of the project borrows objects from it";
                found.push(UnprovenRepository { folder: lender.clone(), git_file: None, reason });
                objects.push(lender);
            }
        }
    }
    found
}

/// Those of these folders that lie in no other of them.
fn outermost(folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_inner =
        |folder: &PathBuf| folders.iter().any(|other| other != folder && folder.starts_with(other));
    let mut outer: Vec<PathBuf> = folders.iter().filter(|folder| !is_inner(folder)).cloned().collect();
    outer.dedup();
    outer
}

fn is_repository_at(folder: &Path) -> bool {
    folder.is_dir() && is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Whether the same user owns all of these, none of which is a link.
#[cfg(unix)]
fn have_one_owner(paths: &[&Path]) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owners: Option<Vec<u32>> =
        paths.iter().map(|path| path.symlink_metadata().ok().map(|about| about.uid())).collect();
    owners.is_some_and(|owners| owners.windows(2).all(|pair| pair[0] == pair[1]))
}

#[cfg(not(unix))]
fn have_one_owner(_: &[&Path]) -> bool {
    false
}

/// Whether a folder with these entries is one that git treats as a repository, whatever its name.
pub fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// The entries that make a folder a repository.
pub const REPOSITORY_ENTRIES: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// The folder that a file names after this prefix. A relative path is resolved from `above`.
fn path_in_file(file: &Path, above: &Path, words: &[u8], paths: &HostPaths) -> Option<PathBuf> {
    target_in_file(file, above, words, paths).filter(|folder| paths.is_dir(folder))
}

/// The same, whatever lies there.
fn target_in_file(file: &Path, above: &Path, words: &[u8], paths: &HostPaths) -> Option<PathBuf> {
    let text = read_prefix(file, MAX_PATH_BYTES, paths)?;
    let path = text.strip_prefix(words)?;
    let end = path.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    paths.canonicalize(&above.join(to_os_str(path.get(..=end)?)?)).ok()
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere names are text")]
fn to_os_str(bytes: &[u8]) -> Option<&OsStr> {
    use std::os::unix::ffi::OsStrExt;
    Some(OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn to_os_str(bytes: &[u8]) -> Option<&OsStr> {
    std::str::from_utf8(bytes).ok().map(OsStr::new)
}

/// The content of a regular file; a named pipe is not read, since reading it could block.
fn read_prefix(file: &Path, most: u64, paths: &HostPaths) -> Option<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let file = File::open_ambient_with(paths.at(file), &options, ambient_authority()).ok()?;
    let mut text = Vec::new();
    let is_file = file.metadata().ok()?.is_file();
    is_file.then(|| file.take(most).read_to_end(&mut text).ok()).flatten()?;
    Some(text)
}

/// The paths that git reads or runs in the folder `tree` because of a configuration: the user's, and that of the repository of
/// this `.git`. Symbolic links are resolved as far as the path exists; paths that do not exist are included.
pub fn configured_paths(git: &Path, tree: &Path, host_paths: &HostPaths) -> Vec<PathBuf> {
    let mut named = ConfigReader { worktree: tree, host_paths, files_read: Vec::new(), paths: Vec::new() };
    let own = host_paths.canonicalize(git).ok();
    let own = own.into_iter().chain(linked_paths(git, host_paths)).filter(|folder| host_paths.is_dir(folder));
    let own = own.flat_map(|folder| ["config", "config.worktree"].map(|name| folder.join(name)));
    for file in own.chain(user_config_files()) {
        named.read(&file);
    }
    let ConfigReader { mut paths, .. } = named;
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The configuration files that apply to every repository.
fn user_config_files() -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os("GIT_CONFIG_GLOBAL").filter(|file| !file.is_empty()) {
        return vec!["/etc/gitconfig".into(), only.into()];
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let base = std::env::var_os("XDG_CONFIG_HOME").filter(|base| !base.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| home.as_ref().map(|home| home.join(".config")));
    // As git reads them: the last value of a setting counts.
    let own = base.map(|base| base.join("git/config")).into_iter();
    let own = own.chain(home.map(|home| home.join(".gitconfig")));
    std::iter::once("/etc/gitconfig".into()).chain(own).collect()
}

/// The settings with these keys, `section.key` in lower case, that apply to every repository, in the order in which git reads them. Files that
/// are included under a condition are left out.
pub fn settings_of_user(keys: &[&str]) -> Vec<(String, String)> {
    read_settings(keys, user_config_files().into_iter())
}

/// The same of the repository of this `.git`.
pub fn settings_of_repository(git: &Path, keys: &[&str]) -> Vec<(String, String)> {
    let own = std::iter::once(git.to_owned()).chain(linked_paths(git, &HostPaths::default()));
    read_settings(keys, own.flat_map(|folder| ["config", "config.worktree"].map(|name| folder.join(name))))
}

fn read_settings(keys: &[&str], files: impl Iterator<Item = PathBuf>) -> Vec<(String, String)> {
    let left = MAX_CONFIG_BYTES;
    let mut settings = SettingsReader { keys, left, files_read: Vec::new(), found: Vec::new() };
    files.for_each(|file| settings.read(&file));
    settings.found
}

/// The settings found so far.
struct SettingsReader<'a> {
    keys: &'a [&'a str],
    /// The bytes that all other files may have.
    left: u64,
    files_read: Vec<PathBuf>,
    found: Vec<(String, String)>,
}

impl SettingsReader<'_> {
    fn read(&mut self, file: &Path) {
        let Ok(file) = file.canonicalize() else { return };
        if self.files_read.len() >= MAX_CONFIG_FILES || self.files_read.contains(&file) {
            return;
        }
        self.files_read.push(file.clone());
        let Some(text) = read_prefix(&file, self.left, &HostPaths::default()) else { return };
        self.left -= text.len() as u64;
        let entries = parse_entries(&String::from_utf8_lossy(&text)).into_iter();
        let is_wanted = |key: &str| key == "include.path" || self.keys.contains(&key);
        let wanted = entries.filter(|entry| !entry.has_subsection && is_wanted(&entry.key));
        for ConfigEntry { key, value, .. } in wanted.collect::<Vec<_>>() {
            if key == "include.path" {
                self.read(&expand_home(&value, file.parent().unwrap_or(Path::new("/"))));
            } else {
                self.found.push((key, value));
            }
        }
    }
}

/// The paths found so far.
struct ConfigReader<'a> {
    worktree: &'a Path,
    host_paths: &'a HostPaths,
    files_read: Vec<PathBuf>,
    paths: Vec<PathBuf>,
}

impl ConfigReader<'_> {
    fn read(&mut self, file: &Path) {
        let Ok(file) = self.host_paths.canonicalize(file) else { return };
        if self.files_read.len() >= MAX_CONFIG_FILES || self.files_read.contains(&file) {
            return;
        }
        self.files_read.push(file.clone());
        let Some(text) = read_prefix(&file, MAX_CONFIG_BYTES, self.host_paths) else { return };
        for ConfigEntry { key, value, .. } in parse_entries(&String::from_utf8_lossy(&text)) {
            let above = file.parent().unwrap_or(Path::new("/"));
            if matches!(key.as_str(), "include.path" | "includeif.path") {
                let included = expand_home(&value, above);
                self.paths.extend(resolve_existing(&included, self.host_paths));
                self.read(&included);
            } else if key == "core.hookspath" {
                self.add_hooks(&expand_home(&value, self.worktree));
            } else if is_command_key(&key) || value.starts_with('!') {
                for word in value.trim_start_matches('!').split_whitespace() {
                    self.add_program(word.trim_matches(['"', '\'', ';', '(', ')']));
                }
            }
        }
    }

    fn add_hooks(&mut self, folder: &Path) {
        let Some(folder) = resolve_existing(folder, self.host_paths) else { return };
        if self.worktree.starts_with(&folder) {
            // Protecting the whole project for them is not possible; protecting their names is.
            self.paths.extend(HOOKS.map(|hook| folder.join(hook)));
        } else {
            self.paths.push(folder);
        }
    }

    /// A word of a command, if it is a path.
    fn add_program(&mut self, word: &str) {
        if word.is_empty() || word.starts_with('-') {
            return;
        }
        let Some(path) = resolve_existing(&expand_home(word, self.worktree), self.host_paths) else { return };
        if self.host_paths.is_file(&path) || (word.contains('/') && !self.host_paths.is_dir(&path)) {
            self.paths.push(path);
        }
    }
}

/// Whether the value of this key is a command.
fn is_command_key(key: &str) -> bool {
    const LAST: [&str; 22] = [
        "askpass",
        "clean",
        "cmd",
        "command",
        "difffilter",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "helper",
        "packobjectshook",
        "pager",
        "path",
        "process",
        "program",
        "receivepack",
        "smudge",
        "sshcommand",
        "textconv",
        "uploadpack",
        "alternaterefscommand",
    ];
    key.starts_with("pager.") || key.rsplit('.').next().is_some_and(|last| LAST.contains(&last))
}

/// The hook names that git knows.
const HOOKS: [&str; 24] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
    "proc-receive",
];

fn expand_home(path: &str, above: &Path) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => above.join(path),
    }
}

/// A path with symbolic links resolved as far as it exists; `None` if `..` follows a part that does not exist.
fn resolve_existing(path: &Path, paths: &HostPaths) -> Option<PathBuf> {
    let (above, real) = path.ancestors().find_map(|above| Some((above, paths.canonicalize(above).ok()?)))?;
    let rest = path.strip_prefix(above).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// A setting of a configuration.
struct ConfigEntry {
    /// `section.key` in lower case.
    key: String,
    /// Whether its section has a name of its own, as in `[remote "origin"]`, which is not part of the key.
    has_subsection: bool,
    value: String,
}

fn parse_entries(text: &str) -> Vec<ConfigEntry> {
    let text = text.trim_start_matches('\u{feff}').replace("\\\r\n", "").replace("\\\n", "");
    let (mut section, mut has_subsection) = (String::new(), false);
    let mut found = Vec::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            let end = head.rfind(']').unwrap_or(head.len());
            let name = head.get(..end).unwrap_or(head);
            let mut parts = name.trim().split(['"', ' ', '.', '\t']);
            section = parts.next().unwrap_or_default().to_ascii_lowercase();
            has_subsection = parts.next().is_some();
            line = head.get(end + 1..).unwrap_or_default().trim();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if key.starts_with(['#', ';']) {
            continue;
        }
        let key = format!("{section}.{}", key.trim().to_ascii_lowercase());
        found.push(ConfigEntry { key, has_subsection, value: unquote(value.trim()) });
    }
    found
}

/// A value without its quotes and its comment.
fn unquote(value: &str) -> String {
    let (mut plain, mut is_quoted, mut letters) = (String::new(), false, value.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => plain.extend(letters.next()),
            '#' | ';' if !is_quoted => break,
            letter => plain.push(letter),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_repository_is_known_by_what_it_holds() {
        let is = |names: &[&str]| is_repository(|name| names.contains(&name));
        assert!(is(&["HEAD", "objects", "refs"]) && is(&["HEAD", "commondir"]));
        assert!(!is(&["HEAD", "objects"]) && !is(&["objects", "refs", "commondir"]));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_a_worktree_and_a_link_lead_to_where_the_history_is() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        for made in ["meta", "trees/one", "shared", "plain/.git", "wide/.git"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        let says = |file: &str, text: &str| fs::write(top.join(file), text).unwrap();
        let of = |git: &str| linked_paths(&top.join(git), &HostPaths::default());
        says("one", "gitdir: meta\n");
        assert_eq!(of("one"), [top.join("meta")]);
        says("trees/one/commondir", "../../shared\n");
        says("two", &format!("gitdir: {}\r\n", top.join("trees/one").display()));
        assert_eq!(of("two"), [top.join("trees/one"), top.join("shared")]);
        says("wide/.git/commondir", "../../shared");
        assert_eq!(of("wide/.git"), [top.join("shared")]);
        std::os::unix::fs::symlink("meta", top.join("link")).unwrap();
        assert_eq!(of("link"), [top.join("meta")]);
        std::os::unix::fs::symlink("two", top.join("twice")).unwrap();
        assert_eq!(of("twice"), [top.join("two"), top.join("trees/one"), top.join("shared")]);
        for text in ["", "gitdir: ", "gitdir: gone\n", "meta\n", "gitdir: one\n", "gitdir: me\0ta"] {
            says("three", text);
            assert!(of("three").is_empty(), "{text:?}");
        }
        assert!(of("plain/.git").is_empty() && of("gone").is_empty());
        let pipe = top.join("plain/.git/commondir");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_err() || of("plain/.git").is_empty(), "nobody waits at a pipe");
    }

    /// A project `wt` with this text in its `.git`, beside a repository `main` with the worktree `wt`.
    #[cfg(unix)]
    fn worktree(top: &Path, git: &str) {
        for folder in ["main/.git/objects", "main/.git/refs", "main/.git/worktrees/wt", "wt"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for (file, text) in [
            ("main/.git/HEAD", "ref: refs/heads/main\n"),
            ("main/.git/worktrees/wt/HEAD", "ref: refs/heads/topic\n"),
            ("main/.git/worktrees/wt/commondir", "../..\n"),
            ("main/.git/worktrees/wt/gitdir", &format!("{}\n", top.join("wt/.git").display())),
            ("wt/.git", git),
        ] {
            fs::write(top.join(file), text).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_worktree_belongs_to_a_repository_that_points_back_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let find = || OutsideRepository::find(&top.join("wt"));
        let main = top.join("main/.git");
        for git in
            [&*format!("gitdir: {}/worktrees/wt\n", main.display()), "gitdir: ../main/.git/worktrees/wt"]
        {
            worktree(&top, git);
            assert_eq!(find(), OutsideRepository { worktree: vec![main.clone()], unproven: Vec::new() });
        }
        let says = |file: &str, text: &str| fs::write(top.join(file), text).unwrap();
        let is_unproven = |why: &str| {
            let found = find();
            assert!(found.worktree.is_empty() && found.unproven.len() == 1, "{why}: {found:?}");
            assert!(
                main.starts_with(&found.unproven[0].folder) || found.unproven[0].folder.starts_with(&main)
            );
        };
        says("main/.git/worktrees/wt/gitdir", &format!("{}\n", top.join("other/.git").display()));
        is_unproven("it names another worktree");
        fs::remove_file(main.join("worktrees/wt/gitdir")).unwrap();
        is_unproven("it names none");
        worktree(&top, "gitdir: ../main/.git");
        is_unproven("the repository itself");
        fs::create_dir_all(top.join("wt/x")).unwrap();
        fs::remove_file(top.join("wt/.git")).unwrap();
        std::os::unix::fs::symlink("../main/.git", top.join("wt/.git")).unwrap();
        is_unproven("a link");
        fs::remove_file(top.join("wt/.git")).unwrap();
        assert_eq!(find(), OutsideRepository::default());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_repository_is_never_one_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        worktree(&top, "gitdir: ../keys\n");
        fs::create_dir(top.join("keys")).unwrap();
        let find = || OutsideRepository::find(&top.join("wt"));
        assert_eq!(find(), OutsideRepository::default());
        fs::write(top.join("keys/commondir"), "../main/.git").unwrap();
        let unproven: Vec<PathBuf> = find().unproven.into_iter().map(|one| one.folder).collect();
        assert_eq!(unproven, [top.join("main/.git")]);
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_repository_lead_to_repositories_and_their_objects_alone() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        for made in [
            "project/.git/objects/info",
            "project/.git/refs",
            "other/.git/objects/pack",
            "other/.git/refs",
            "store/info",
            "store/pack",
            "store/0f",
            "packs",
            "mixed/info",
            "mixed/pack",
            ".vim/pack/plugins",
            "empty/pack",
        ] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        for file in ["project/.git/HEAD", "other/.git/HEAD", "packs/pack-1.idx", "mixed/key", "keys"] {
            fs::write(top.join(file), "").unwrap();
        }
        let link = top.join("project/.git/objects/pack");
        for (target, expected) in [
            ("other/.git/objects/pack", Some("other/.git")),
            ("store", Some("store")),
            ("packs", Some("packs")),
            (".vim/pack", None),
            ("empty/pack", None),
            ("mixed", None),
            ("mixed/pack", None),
            ("keys", None),
            ("", None),
            ("project", None),
        ] {
            std::os::unix::fs::symlink(top.join(target), &link).unwrap();
            let found = OutsideRepository::find(&top.join("project")).unproven;
            let folders: Vec<PathBuf> = found.into_iter().map(|one| one.folder).collect();
            assert_eq!(folders, Vec::from_iter(expected.map(|folder| top.join(folder))), "{target}");
            fs::remove_file(&link).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn lenders_and_the_repository_above_are_for_a_person_to_decide() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        worktree(&top, "gitdir: ../main/.git/worktrees/wt\n");
        for made in ["lent/objects/info", "lent/refs", "main/.git/objects/info", "main/pkg/a", "wt/pkg"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        fs::write(top.join("lent/HEAD"), "").unwrap();
        let lent = top.join("lent/objects");
        // Those that lend to one another come to an end.
        for alternates in ["lent/objects/info/alternates", "main/.git/objects/info/alternates"] {
            fs::write(top.join(alternates), format!("# lent\n{}\n{}\n", lent.display(), top.display()))
                .unwrap();
        }
        let folders = |project: &str| -> Vec<PathBuf> {
            let found = OutsideRepository::find(&top.join(project));
            found.unproven.into_iter().map(|one| one.folder).collect()
        };
        assert_eq!(folders("wt"), std::slice::from_ref(&lent));
        assert_eq!(folders("main"), std::slice::from_ref(&lent));
        assert_eq!(folders("main/pkg/a"), [top.join("main/.git"), lent.clone()]);
        let above = OutsideRepository::find(&top.join("wt/pkg"));
        assert_eq!(above.unproven[0].folder, top.join("main/.git"));
        assert_eq!(above.unproven[0].git_file, Some(top.join("wt/.git")));
    }

    #[cfg(unix)]
    #[test]
    fn a_configuration_names_what_git_runs_and_reads() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let says = |file: &str, text: &str| {
            fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
            fs::write(top.join(file), text).unwrap();
        };
        says("tools/watch.sh", "");
        says("more/own.cfg", "[diff \"x\"]\n textconv = sh \"tools/show.sh\" --all\n[core] editor = vi\n");
        says(
            ".git/config",
            "# hooksPath = no\n[Core]\n\thooksPath = \".husky/_\" ; ours\n fsmonitor=tools/watch.sh\n\
             [include]\n path = ../more/own.cfg\n[includeIf \"gitdir:~/x/\"] path = ../later.cfg\n\
             [alias]\n go = !tools/\\\ngo.sh\n[branch \"main\"]\n merge = refs/heads/main\n",
        );
        let named = configured_paths(&top.join(".git"), &top, &HostPaths::default());
        let inside: Vec<_> = named
            .iter()
            .filter_map(|path| path.strip_prefix(&top).ok())
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        assert_eq!(
            inside,
            [".husky/_", "later.cfg", "more/own.cfg", "tools/go.sh", "tools/show.sh", "tools/watch.sh"]
        );
        says(".git/config", "[core]\nhooksPath = .\n");
        assert!(
            configured_paths(&top.join(".git"), &top, &HostPaths::default())
                .contains(&top.join("pre-commit"))
        );
    }
}
