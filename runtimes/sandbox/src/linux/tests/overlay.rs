//! What an overlay promises.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountFlags;
use rustix::process::geteuid;

use super::standby::{fail_to_create_namespaces, standby_beside};
use super::{has_own_mounts, kill, run, supervisors_of};
use crate::linux::overlay::client::PendingOverlay;
use crate::*;

/// With as much time as an emulated machine needs.
fn launch_request(project: &Path, script: &str) -> LaunchRequest {
    LaunchRequest { timeout_ms: 120_000, ..super::launch_request(project, script) }
}

/// A project, a folder for changes, and the overlay of both.
struct Fixture {
    folder: tempfile::TempDir,
    launcher: Launcher,
    overlay: Option<Overlay>,
}

impl Fixture {
    fn new(lay_out: &str) -> Self {
        refuse_calls();
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "upper", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut fixture = Self { folder, launcher: Launcher::default(), overlay: None };
        let laid_out =
            Command::new("bash").args(["-ec", lay_out]).current_dir(fixture.at("project")).status().unwrap();
        assert!(laid_out.success());
        fixture.overlay = Some(fixture.mount().unwrap());
        fixture
    }

    fn mount(&self) -> Result<Overlay, OverlayError> {
        let lower = fs::File::open(self.at("project")).unwrap();
        let (upper, work) = (self.at("upper"), self.at("work"));
        self.launcher.mount_overlay(OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work })
    }

    /// Mounts another overlay of the same project, once the first is gone.
    fn remount(&mut self, upper: &str, work: &str) {
        self.overlay = None;
        let (upper, work) = (self.at(upper), self.at(work));
        for folder in [&upper, &work] {
            fs::create_dir_all(folder).unwrap();
        }
        let lower = fs::File::open(self.at("project")).unwrap();
        let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
        self.overlay = Some(self.launcher.mount_overlay(request).unwrap());
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn overlay(&self) -> &Overlay {
        self.overlay.as_ref().unwrap()
    }

    /// A path of the overlay for this process.
    fn host(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.overlay().root().as_raw_fd())).join(path)
    }

    fn request(&self, script: &str) -> LaunchRequest {
        let project = self.at("project");
        let mut request = launch_request(&project, script);
        request.sandbox.files.overlay = Some(self.overlay().mount_at(&project));
        request
    }

    /// What a script prints.
    fn script(&self, script: &str) -> String {
        self.run(&self.request(script))
    }

    fn run(&self, request: &LaunchRequest) -> String {
        let ran = run(&self.launcher, request);
        format!("{}{}", ran.stdout, ran.stderr)
    }
}

/// Everything about a folder's files that a program could change, by their paths.
fn listing(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                folders.push(path.clone());
            }
            all.insert(path.strip_prefix(folder).unwrap().to_owned(), content(&path));
        }
    }
    all
}

fn content(path: &Path) -> String {
    let about = fs::symlink_metadata(path).unwrap();
    let text = match about.file_type() {
        kind if kind.is_symlink() => format!("-> {}", fs::read_link(path).unwrap().display()),
        kind if kind.is_file() => fs::read_to_string(path).unwrap(),
        _ => String::new(),
    };
    format!("{:o} {text:?}", about.mode())
}

/// The same, and all times and numbers.
fn exact_listing(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = listing(folder);
    all.insert("".into(), content(folder));
    for (path, text) in &mut all {
        let about = fs::symlink_metadata(folder.join(path)).unwrap();
        let times = (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec());
        let numbers = (about.ino(), about.nlink(), about.uid(), about.gid(), about.size());
        *text = format!("{text} {times:?} {numbers:?}");
    }
    all
}

/// A running script that can be talked to.
struct Talk {
    feed: std::io::PipeWriter,
    output: BufReader<std::io::PipeReader>,
    handle: LaunchHandle,
}

impl Talk {
    fn start(launcher: &Launcher, request: &LaunchRequest) -> Self {
        let (stdin, feed) = std::io::pipe().unwrap();
        let (stdout, out) = std::io::pipe().unwrap();
        let err = out.try_clone().unwrap();
        let handle = launcher.start(request, [stdin.into(), out.into(), err.into()], None).unwrap();
        Self { feed, output: BufReader::new(stdout), handle }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.feed, "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(self) -> LaunchOutcome {
        drop(self.feed);
        self.handle.wait().unwrap().end
    }
}

const LAY_OUT: &str = "
    mkdir -p src/deep empty docs
    echo one > src/one; echo two > src/deep/two; echo three > docs/three
    echo text > file; echo other > other; chmod 640 other; ln -s src/one link; ln file hard
    printf 'echo run\\n' > tool; chmod 755 tool";

/// One of each kind of change.
const CHANGES: &str = "
    echo new > created; mkdir -p made/deep; echo x > made/deep/x
    echo more >> src/one; echo replaced > tool; : > other
    rm docs/three; rmdir docs; rmdir empty
    mv src/deep/two src/moved; mv tool moved-tool; chmod 600 moved-tool
    ln -s moved-tool made/link; ln -sf nowhere link; ln created made/again
    rm -r src/deep; echo file > src/deep; rm src/deep; mkdir src/deep; echo fresh > src/deep/fresh
    rm -r made/deep; mkdir made/deep; touch -d @1000 made/deep
    mv src renamed; mkdir src; echo in > src/in
    echo x > swap; mv swap file; chmod 700 renamed";

#[test]
fn a_script_changes_in_an_overlay_what_it_would_change_in_a_copy_and_the_project_stays_as_it_is() {
    let fixture = Fixture::new(LAY_OUT);
    let before = exact_listing(&fixture.at("project"));
    assert_eq!(fixture.script(CHANGES), "");
    assert_eq!(exact_listing(&fixture.at("project")), before);
    let copy = Fixture::new(LAY_OUT);
    let ran = run(&copy.launcher, &launch_request(&copy.at("project"), CHANGES));
    assert_eq!(ran.stderr, "");
    let expected = listing(&copy.at("project"));
    let number = |path: &str| fs::metadata(fixture.host(path)).unwrap().ino();
    assert_eq!(number("made/again"), number("created"));
    assert!(expected.len() > 12, "{expected:?}");
    assert_eq!(listing(&fixture.host("")), expected);
    assert_eq!(
        fixture.script("find . -mindepth 1 -printf '%P\\n' | sort"),
        copy.script("find . -mindepth 1 -printf '%P\\n' | sort")
    );
}

/// Random changes, by which a program ends and what it prints is compared. Folders are moved as `mv` does it, and second names are in the
/// top folder, of which none is moved.
const GENERATED: &str = r"
import os, random, shutil, sys
random.seed(int(sys.argv[1]))
def folders():
    return ['.'] + sorted(os.path.join(here, name) for here, names, _ in os.walk('.') for name in names)
def files():
    return sorted(os.path.join(here, name) for here, _, names in os.walk('.') for name in names)
def new():
    return os.path.join(random.choice(folders()), random.choice('abcdefgh') + random.choice('123'))
def old():
    return random.choice(files() or ['none'])
def folder():
    return random.choice(folders()[1:] or ['none'])
def write(path, mode):
    with open(path, mode) as file:
        file.write(random.choice(['', 'x', 'text' * 3000]) + str(random.random()))
def copy(source, target):
    if not target.startswith(source) and sum(map(len, [files(), folders()])) < 200:
        shutil.copytree(source, target)
def top(path):
    return './' + os.path.basename(path)
def lines(path):
    with open(path) as file:
        return len(file.read())
CHANGES = [
    lambda: write(new(), 'w'), lambda: write(new(), 'x'), lambda: write(old(), 'a'), lambda: write(old(), 'w'),
    lambda: os.truncate(old(), random.randrange(9)), lambda: os.remove(old()), lambda: os.rename(old(), new()),
    lambda: os.mkdir(new()), lambda: os.makedirs(os.path.join(new(), 'deep', 'deeper')), lambda: os.rmdir(folder()),
    lambda: shutil.rmtree(folder()), lambda: shutil.move(folder(), new()), lambda: os.chmod(old(), random.choice([0o600, 0o644, 0o755])),
    lambda: os.chmod(folder(), random.choice([0o700, 0o755])), lambda: os.symlink(old(), new()), lambda: os.link(top(old()), top(new())),
    lambda: os.utime(old(), (9, 9)), lambda: copy(folder(), new()), lambda: os.replace(old(), old()),
    lambda: sorted(os.listdir(folder())), lambda: lines(old()), lambda: os.stat(old()).st_size if os.path.isfile(old()) else 0,
]
for _ in range(150):
    change = random.randrange(len(CHANGES))
    try:
        print(change, CHANGES[change]())
    except (OSError, shutil.Error) as error:
        print(change, type(error).__name__, getattr(error, 'errno', None))
";

#[test]
fn generated_programs_end_in_an_overlay_as_they_do_in_a_copy() {
    let lay_out = "mkdir -p a1/b1/c1 b2 c3/d1; for path in a1 a1/b1 a1/b1/c1 b2 c3/d1; do for name in e1 e2 f3; do
                       echo $path$name > $path/$name; done; done; ln -s a1/e1 h1; echo top > g1; chmod 755 g1";
    for seed in 0..4 {
        let (fixture, copy) = (Fixture::new(lay_out), Fixture::new(lay_out));
        let before = exact_listing(&fixture.at("project"));
        let script = format!("python3 - {seed} <<'END'\n{GENERATED}\nEND");
        let ran = run(&copy.launcher, &launch_request(&copy.at("project"), &script));
        assert!(ran.stdout.lines().count() == 150 && ran.stderr.is_empty(), "{}", ran.stderr);
        let in_overlay = fixture.script(&script);
        for (number, (ours, theirs)) in in_overlay.lines().zip(ran.stdout.lines()).enumerate() {
            assert_eq!(ours, theirs, "{seed}: {number}");
        }
        assert_eq!(listing(&fixture.host("")), listing(&copy.at("project")), "{seed}");
        assert_eq!(exact_listing(&fixture.at("project")), before, "{seed}");
    }
}

#[test]
fn what_was_changed_is_where_the_format_of_overlayfs_says() {
    let fixture = Fixture::new(LAY_OUT);
    fixture.script(
        "rm docs/three; rm -r src; mkdir src; echo new > src/new; echo more >> file; chmod 600 other",
    );
    let about = |path: &str| fs::symlink_metadata(fixture.at("upper").join(path)).unwrap();
    let whiteout = about("docs/three");
    assert_eq!((whiteout.mode() & libc::S_IFMT, whiteout.rdev()), (libc::S_IFCHR, 0));
    let opaque = |path: &str| {
        let mut value = [0; 8];
        let path = fixture.at("upper").join(path);
        rustix::fs::getxattr(&path, "user.overlay.opaque", &mut value).map(|length| value[..length].to_vec())
    };
    assert_eq!(opaque("src"), Ok(b"y".to_vec()));
    assert_eq!(opaque("docs"), Err(rustix::io::Errno::NODATA));
    let mut names: Vec<_> = listing(&fixture.at("upper")).into_keys().collect();
    names.retain(|name| name != Path::new("docs/three"));
    assert_eq!(names, ["docs", "file", "other", "src", "src/new"].map(PathBuf::from));
    assert_eq!(fs::read_to_string(fixture.at("upper/file")).unwrap(), "text\nmore\n");
    assert_eq!(fs::read_to_string(fixture.at("upper/other")).unwrap(), "other\n", "no metadata alone");
}

#[test]
fn the_root_of_an_overlay_has_the_attributes_of_the_project_until_they_are_changed() {
    let mut fixture = Fixture::new("echo 1 > file; chmod 2751 .; touch -d @1000 .");
    if geteuid().is_root() {
        std::os::unix::fs::chown(fixture.at("project/file"), Some(NOBODY), Some(NOBODY)).unwrap();
        std::os::unix::fs::chown(fixture.at("project"), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(fixture.at("project"), fs::Permissions::from_mode(0o2751)).unwrap();
        fixture.remount("upper2", "work2");
    }
    let about = "stat -c '%a %u %g %Y' .";
    let printed = fixture.script(about);
    let project = fs::metadata(fixture.at("project")).unwrap();
    let expected = format!("2751 {} {} 1000\n", project.uid(), project.gid());
    assert_eq!(printed, expected);
    // Whose file it was, it remains.
    assert_eq!(fixture.script("echo 2 > file; stat -c %u file"), format!("{}\n", project.uid()));
    let upper = if geteuid().is_root() { "upper2" } else { "upper" };
    fs::set_permissions(fixture.host(""), fs::Permissions::from_mode(0o700)).unwrap();
    // An earlier overlay's changes are the same in the next one.
    fixture.script("echo x > new");
    let before = fixture.script(about);
    assert!(before.starts_with("700 "), "{before}");
    fixture.remount(upper, "work3");
    assert_eq!(fixture.script(about), before);
    assert_eq!(fixture.script("cat new"), "x\n");
}

#[test]
fn a_folder_of_the_project_is_copied_and_not_moved() {
    let fixture = Fixture::new(LAY_OUT);
    let script =
        "python3 -c 'import os; os.rename(\"src\", \"moved\")' 2>&1 | tail -1; mv src moved; cat moved/one";
    let printed = fixture.script(script);
    assert!(printed.contains("Errno 18") && printed.ends_with("one\n"), "{printed}");
    // What is new is moved.
    assert_eq!(
        fixture.script("mkdir a; python3 -c 'import os; os.rename(\"a\", \"b\")'; ls -d a b 2> /dev/null"),
        "b\n"
    );
}

#[test]
fn the_host_and_scripts_see_at_once_what_the_others_change() {
    let fixture = Fixture::new("echo old > file");
    let script = "echo ready; while read -r line; do eval \"$line\"; done";
    let mut first = Talk::start(&fixture.launcher, &fixture.request(script));
    let mut second = Talk::start(&fixture.launcher, &fixture.request(script));
    assert_eq!((first.line(), second.line()), ("ready".into(), "ready".into()));
    first.send("echo first > file; mkdir dir; echo x > dir/x; echo done");
    assert_eq!(first.line(), "done");
    assert_eq!(fs::read_to_string(fixture.host("file")).unwrap(), "first\n");
    second.send("cat file dir/x; rm dir/x; echo done");
    assert_eq!([second.line(), second.line(), second.line()], ["first", "x", "done"]);
    assert!(!fixture.host("dir/x").exists());
    fs::write(fixture.host("dir/host"), "from the host\n").unwrap();
    fs::rename(fixture.host("file"), fixture.host("dir/file")).unwrap();
    for script in [&mut first, &mut second] {
        script.send("ls dir; cat dir/*; ls file 2> /dev/null; echo done");
        let lines = [script.line(), script.line(), script.line(), script.line(), script.line()];
        assert_eq!(lines, ["file", "host", "first", "from the host", "done"]);
    }
    assert_eq!(first.end(), LaunchOutcome::Exited { status: 0 });
    assert_eq!(second.end(), LaunchOutcome::Exited { status: 0 });
    assert_eq!(fixture.script("cat dir/host"), "from the host\n");
    assert_eq!(listing(&fixture.at("project")).len(), 1);
}

#[test]
fn a_standby_starts_scripts_in_overlays_and_forwards_the_request_for_one() {
    let fixture = Fixture::new("echo 1 > file");
    for round in 1..6 {
        let script = format!("cat file; echo {} > file", round + 1);
        assert_eq!(fixture.script(&script), format!("{round}\n"));
    }
    let server = overlay_server_of(&fixture.launcher).as_raw_pid();
    let standby = standby_beside(&fixture.launcher, &[server]);
    let other = Fixture::new("echo other > file");
    let lower = fs::File::open(other.at("project")).unwrap();
    fs::create_dir(other.at("work2")).unwrap();
    let request =
        OverlayRequest { lower: lower.as_fd(), upper: &other.at("upper"), work: &other.at("work2") };
    let overlay = fixture.launcher.mount_overlay(request).unwrap();
    assert!(supervisors_of(&fixture.launcher).contains(&standby), "it has ended");
    let mut request = launch_request(&other.at("project"), "cat file; echo x > new");
    request.sandbox.files.overlay = Some(overlay.mount_at(&other.at("project")));
    assert_eq!(fixture.run(&request), "other\n");
    assert!(!other.at("project/new").exists());
    // What was prepared for a script like the last is not of the folder itself.
    for _ in 0..4 {
        let mut request = fixture.request("cat file; echo x > file");
        request.sandbox.files.read.push(fixture.at("project/file").into());
        request.sandbox.files.write = vec!["/dev/null".into()];
        let printed = fixture.run(&request);
        assert!(printed.starts_with("6\n") && printed.lines().count() == 2, "{printed}");
    }
    // Without an overlay, the same launcher starts scripts on the folder itself.
    assert_eq!(fixture.run(&launch_request(&fixture.at("project"), "cat file")), "1\n");
    assert_eq!(fixture.script("cat file"), "6\n");
}

#[test]
fn a_script_may_change_in_an_overlay_only_what_its_rules_say() {
    let fixture = Fixture::new(LAY_OUT);
    let mut request = fixture.request(
        "for change in 'echo x > new' 'echo x >> file' 'rm file' 'mv file moved' 'mkdir dir' 'chmod 600 file' \
         'ln -s x link2' 'ln file again2' 'touch file' 'rmdir empty' 'echo x > src/one' ': > file'; do
             (eval \"$change\") 2> /dev/null && echo \"$change\"
         done; cat file src/one; echo y > docs/new; cat docs/new",
    );
    let files = &mut request.sandbox.files;
    files.own.push((&fixture.at("project")).into());
    files.write = vec![(&fixture.at("project/docs")).into(), "/dev/null".into()];
    assert_eq!(fixture.run(&request), "text\none\ny\n");
    let names: Vec<_> = listing(&fixture.at("upper")).into_keys().collect();
    assert_eq!(names, ["docs", "docs/new"].map(PathBuf::from));
}

#[test]
fn protected_paths_hold_in_an_overlay_whatever_was_copied_or_moved() {
    let fixture = Fixture::new(
        "mkdir -p conf/deep .git/hooks; echo secret > conf/deep/.env; ln conf/deep/.env second; echo hook > .git/hooks/own
         echo plain > conf/plain; echo secret > .env",
    );
    let hidden = ["conf/deep/.env", "second", ".env"];
    let script = "
        cat conf/deep/.env second .env; cp -r conf copied; cat copied/deep/.env; cat < .env
        ln conf/deep/.env linked; ln second linked2; ln .env linked3; cat linked*; rm -f .env conf/deep/.env second
        mv conf/deep/.env moved; mv conf/deep conf/other; mv conf conf2; cat conf2/deep/.env conf/other/.env
        echo x > .env; echo x >> conf/deep/.env; chmod 777 conf/deep/.env; chmod 777 .env; cat .env
        echo x > .git/hooks/own; echo x > .git/hooks/new; mv .git git; rm -rf .git; ln .git/hooks/own hook; echo x >> hook
        touch .git/hooks/own; chmod 777 .git/hooks/own; echo x > conf/plain
        python3 -c 'import os; os.rename(\"copied\", \".git/hooks\")'";
    let request = |script: &str| {
        let mut request = fixture.request(script);
        let id = fs::metadata(fixture.host("second")).unwrap();
        let protected = &mut request.sandbox.files.protected_paths;
        protected.hidden = hidden.map(|path| fixture.at("project").join(path).into()).to_vec();
        protected.read_only = vec![fixture.at("project/.git").into()];
        protected.hard_linked_files = vec![FileId { dev: id.dev(), ino: id.ino() }];
        request
    };
    let check = || {
        let printed = fixture.run(&request(script));
        assert!(!printed.contains("secret"), "{printed}");
        for (path, text) in [
            ("conf/deep/.env", "secret\n"),
            ("second", "secret\n"),
            (".env", "secret\n"),
            (".git/hooks/own", "hook\n"),
            ("conf/plain", "x\n"),
        ] {
            assert_eq!(fs::read_to_string(fixture.host(path)).unwrap(), text, "{path} {printed}");
            assert_eq!(fs::metadata(fixture.host(path)).unwrap().mode() & 0o111, 0, "{path} {printed}");
        }
        assert_eq!(fs::read_dir(fixture.host(".git/hooks")).unwrap().count(), 1);
        let enforcement = run(&fixture.launcher, &request("true")).report.unwrap().enforcement;
        assert!(enforcement.has(Restrictions::PROTECTED_PATHS), "{enforcement:?}");
        // A file on another mount gets no second name: this one is new.
        assert!(fs::read_to_string(fixture.host("hook")).unwrap().starts_with("x\n"));
    };
    check();
    // The host program copies them up, and the folders around them.
    for path in [".git/hooks/own", ".env"] {
        fs::set_permissions(fixture.host(path), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(fixture.at("upper").join(path).exists(), "{path}");
    }
    check();
    let file = fs::OpenOptions::new().append(true).open(fixture.host("conf/deep/.env")).unwrap();
    drop(file);
    check();
    // While a script runs, a copy is made of what it does not see.
    let script = "echo ready; read -r line; cat .git/hooks/own .env; echo x >> .git/hooks/own; echo done";
    let mut running = Talk::start(&fixture.launcher, &request(script));
    assert_eq!(running.line(), "ready");
    fs::write(fixture.host(".env"), "newer secret\n").unwrap();
    fs::write(fixture.host(".git/hooks/own"), "newer\n").unwrap();
    running.send("");
    let lines = std::iter::from_fn(|| Some(running.line()).filter(|line| line != "done"));
    let lines: Vec<String> = lines.collect();
    assert_eq!(lines[0], "newer");
    assert!(lines.len() == 3 && lines.iter().all(|line| !line.contains("secret")), "{lines:?}");
    assert_eq!(fs::read_to_string(fixture.host(".git/hooks/own")).unwrap(), "newer\n");
}

#[test]
fn a_script_reaches_none_of_the_folders_of_its_overlay() {
    let fixture = Fixture::new("echo lower > file; mkdir dir");
    fixture.script("echo upper > file; echo x > marker");
    let (around, upper, work) = (fixture.at(""), fixture.at("upper"), fixture.at("work"));
    let script = format!(
        "exec 2> /dev/null
         cd '{project}'; cat '{upper}/file'; ls '{upper}' '{work}' '{around}' '{work}/work'; echo x > '{upper}/planted'
         cat ../upper/file dir/../../upper/file; ls .. ; echo x > ../upper/planted; cd ..; cat upper/file; cd '{project}/dir/../..' && ls
         for place in /proc/[0-9]*/fd/* /proc/[0-9]*/cwd /proc/[0-9]*/root; do
             case $place in /proc/$$/*|/proc/self/*) continue;; esac
             ls $place/; cat $place/upper/file; cat $place/file
         done
         cat {project}/../project/file; umount '{project}' && cat '{project}/file'
         ln -s '{upper}' out; cat out/file; ln '{upper}/file' linked; cat linked; cat /proc/self/mountinfo",
        project = fixture.at("project").display(),
        upper = upper.display(),
        work = work.display(),
        around = around.display(),
    );
    let mut request = fixture.request(&script);
    request.sandbox.files.read.push("/proc".into());
    let printed = fixture.run(&request);
    let overlays: Vec<&str> = printed.lines().filter(|line| line.contains(" - overlay ")).collect();
    assert!(!overlays.is_empty(), "{printed}");
    for mount in overlays {
        assert!(mount.contains("nosuid") && mount.contains("nodev"), "{mount}");
        for path in ["upper/", "/upper", "/work,", "work/"] {
            assert!(!mount.contains(path), "{mount}");
        }
    }
    // A root of the script's own lists what is mounted in it.
    let is_listed = |line: &str| line == "project" || line.ends_with("/:");
    let others: Vec<&str> =
        printed.lines().filter(|line| !line.contains(" - ") && !is_listed(line)).collect();
    assert_eq!(others, ["upper"], "{printed}");
    assert!(!upper.join("planted").exists());
}

#[test]
fn what_comes_to_the_path_of_a_project_is_not_overlaid() {
    let fixture = Fixture::new("echo mine > file");
    let (project, theirs) = (fixture.at("project"), fixture.at("theirs"));
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("file"), "theirs\n").unwrap();
    fs::create_dir(fixture.at("work2")).unwrap();
    let lower = fs::File::open(&project).unwrap();
    fs::rename(&project, fixture.at("elsewhere")).unwrap();
    symlink(&theirs, &project).unwrap();
    let (upper, work) = (fixture.at("upper"), fixture.at("work2"));
    let request = || OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
    let overlay = fixture.launcher.mount_overlay(request()).unwrap();
    let root = format!("/proc/self/fd/{}/file", overlay.root().as_raw_fd());
    assert_eq!(fs::read_to_string(root).unwrap(), "mine\n");
    let mut launch = launch_request(&project, "cat file; echo x > new");
    launch.sandbox.files.overlay = Some(overlay.mount_at(&project));
    let mut refused = |errno: i32| {
        for required in [true, false] {
            launch.sandbox.required = required;
            let ran = run(&fixture.launcher, &launch);
            let end = ran.report.unwrap().end;
            assert_eq!(end, LaunchOutcome::SetupFailed { step: "overlay".into(), errno });
            assert_eq!(ran.stdout, "");
        }
    };
    refused(libc::ELOOP);
    fs::remove_file(&project).unwrap();
    fs::rename(&theirs, &project).unwrap();
    refused(libc::ESTALE);
    fs::rename(&project, &theirs).unwrap();
    fs::rename(fixture.at("elsewhere"), &project).unwrap();
    assert_eq!(fixture.run(&launch), "mine\n");
    for folder in [&project, &theirs] {
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }
}

#[test]
fn what_comes_to_the_path_of_a_folder_for_changes_gets_none() {
    let fixture = Fixture::new("echo 1 > file");
    let (upper, work) = (fixture.at("upper2"), fixture.at("work2"));
    let theirs = fixture.at("theirs");
    for folder in [&upper, &work, &theirs] {
        fs::create_dir(folder).unwrap();
    }
    let lower = fs::File::open(fixture.at("project")).unwrap();
    let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
    let pending = PendingOverlay::open(request).unwrap();
    fs::rename(&upper, fixture.at("moved")).unwrap();
    symlink(&theirs, &upper).unwrap();
    let overlay = fixture.launcher.mount_pending(pending).unwrap();
    fs::write(format!("/proc/self/fd/{}/file", overlay.root().as_raw_fd()), "2\n").unwrap();
    assert_eq!(fs::read_to_string(fixture.at("moved/file")).unwrap(), "2\n");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    let (upper, work) = (fixture.at("upper3"), fixture.at("work3"));
    for folder in [&upper, &work] {
        fs::create_dir_all(&upper).unwrap();
        fs::create_dir_all(&work).unwrap();
        let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
        let pending = PendingOverlay::open(request).unwrap();
        fs::remove_dir(folder).unwrap();
        let error = fixture.launcher.mount_pending(pending).unwrap_err();
        assert!(matches!(error, OverlayError::Replaced(_)), "{error}");
    }
}

/// A level without mounts, or a machine without them, starts nothing on the project itself.
#[test]
fn without_mounts_nothing_starts_on_the_project_itself() {
    let fixture = Fixture::new("echo mine > file");
    for level in [SandboxLevel::Landlock, SandboxLevel::LandlockUnscoped] {
        let launcher = Launcher::new(ForkServerSource::CurrentProgram, level);
        for required in [true, false] {
            let mut request = fixture.request("echo x > file; echo ran");
            request.sandbox.required = required;
            for _ in 0..4 {
                let ran = run(&launcher, &request);
                let end = ran.report.unwrap().end;
                let expected = LaunchOutcome::SetupFailed { step: "overlay".into(), errno: libc::EOPNOTSUPP };
                assert_eq!((end, ran.stdout.as_str()), (expected, ""), "{level:?}");
            }
        }
        let lower = fs::File::open(fixture.at("project")).unwrap();
        let request =
            OverlayRequest { lower: lower.as_fd(), upper: &fixture.at("upper"), work: &fixture.at("work") };
        let error = launcher.mount_overlay(request).unwrap_err();
        assert!(
            matches!(error, OverlayError::Level(_)) && error.to_string().contains(level.name()),
            "{error}"
        );
    }
    assert_eq!(fs::read_to_string(fixture.at("project/file")).unwrap(), "mine\n");
    assert!(listing(&fixture.at("upper")).is_empty());
}

#[test]
fn a_file_has_the_same_number_for_the_host_and_for_scripts_before_and_after_it_is_copied() {
    let fixture = Fixture::new(LAY_OUT);
    let paths = ["file", "other", "src", "src/one", "docs", ".", "link"];
    let by_script = || {
        let printed = fixture.script(&format!("stat -c '%d %i' {}", paths.join(" ")));
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let by_host = || {
        let about = paths.map(|path| fs::symlink_metadata(fixture.host(path)).unwrap());
        about.map(|about| format!("{} {}", about.dev(), about.ino())).to_vec()
    };
    let before = by_host();
    assert_eq!(by_script(), before);
    fixture.script("chmod 700 src docs .; echo x >> other; echo x >> src/one; touch -h -d @9 link");
    assert_eq!(by_script(), before);
    assert_eq!(by_host(), before);
    let devices: std::collections::BTreeSet<_> = before.iter().map(|id| id.split(' ').next()).collect();
    assert_eq!(devices.len(), 1);
    // The copy of a file with several names has a number of its own.
    fixture.script("echo x >> file");
    let after = by_host();
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1..], before[1..]);
    assert_eq!(by_script(), after);
}

#[test]
fn paths_that_the_host_has_pinned_are_granted_before_and_after_they_are_copied() {
    let fixture = Fixture::new(LAY_OUT);
    let pinned = |path: &str| {
        let about = fs::metadata(fixture.host(path)).unwrap();
        let file_id = Some(FileId { dev: about.dev(), ino: about.ino() });
        PinnedPath { file_id, ..PinnedPath::from(&fixture.at("project").join(path)) }
    };
    let mut request = fixture.request("echo x >> src/one; echo x >> other; chmod 755 src; echo x > src/new; cat other src/one; echo x > new");
    request.sandbox.files.own = vec![pinned("")];
    request.sandbox.files.write = vec![pinned("src"), pinned("other"), "/dev/null".into()];
    for round in 1..4 {
        let printed = fixture.run(&request);
        let expected = format!("other\n{0}one\n{0}", "x\n".repeat(round));
        assert!(printed.starts_with(&expected) && printed.contains("new: "), "{printed}");
    }
}

#[test]
fn an_overlay_lasts_as_long_as_somebody_can_use_it_and_no_longer() {
    let mut fixture = Fixture::new("echo 1 > file");
    fixture.script("true");
    let server = overlay_server_of(&fixture.launcher);
    let request = fixture.request("cat file; echo 2 > file");
    // Its fork server may go.
    fixture.launcher.signal_server(rustix::process::Signal::KILL);
    assert_eq!(fixture.run(&request), "1\n");
    drop(fixture.overlay.take());
    assert_eq!(fixture.run(&request), "2\n");
    let ended = rustix::process::pidfd_open(server, rustix::process::PidfdFlags::empty()).unwrap();
    drop(request);
    assert!(wait_readable(&ended), "it goes on");
}

#[test]
fn launches_of_an_overlay_whose_process_was_killed_fail() {
    let fixture = Fixture::new("echo 1 > file");
    let mut running =
        Talk::start(&fixture.launcher, &fixture.request("echo ready; read -r line; echo 2 > file; cat file"));
    assert_eq!(running.line(), "ready");
    let server = overlay_server_of(&fixture.launcher);
    let ended = rustix::process::pidfd_open(server, rustix::process::PidfdFlags::empty()).unwrap();
    kill(server.as_raw_pid());
    assert!(wait_readable(&ended));
    // Whoever has it goes on with it.
    running.send("");
    assert_eq!(running.line(), "2");
    assert_eq!(fs::read_to_string(fixture.host("file")).unwrap(), "2\n");
    let streams = || [(); 3].map(|()| fs::File::open("/dev/null").unwrap().into());
    let error = fixture.launcher.start(&fixture.request("echo 3 > file"), streams(), None).err().unwrap();
    assert!(error.to_string().contains("overlay"), "{error}");
    assert_eq!(fs::read_to_string(fixture.at("project/file")).unwrap(), "1\n");
    // The fork server goes on, too.
    assert_eq!(fixture.run(&launch_request(&fixture.at("project"), "cat file")), "1\n");
}

/// The process that serves the only overlay of this launcher, in a mount namespace that has nothing else.
fn overlay_server_of(launcher: &Launcher) -> rustix::process::Pid {
    let has_one_mount = |pid: &i32| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.lines().count() == 1 && mounts.contains(" / / ") && mounts.contains(" - overlay ")
    };
    let servers: Vec<i32> = supervisors_of(launcher).into_iter().filter(has_one_mount).collect();
    let [server] = servers[..] else { panic!("{servers:?}") };
    rustix::process::Pid::from_raw(server).unwrap()
}

#[test]
fn the_process_of_an_overlay_can_clone_it_and_nothing_else() {
    const SYS_ADMIN: u64 = 1 << 21;
    let fixture = Fixture::new("echo 1 > file");
    fixture.script("true");
    let server = overlay_server_of(&fixture.launcher).as_raw_pid();
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    for set in ["CapPrm:", "CapEff:"] {
        assert_eq!(u64::from_str_radix(field(set), 16), Ok(SYS_ADMIN), "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Threads:")), ("1", "1"));
    // Nobody else sees the descriptors of a process that may not be inspected.
    if let Ok(open) = fs::read_dir(format!("/proc/{server}/fd")) {
        let leads_to = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path()).unwrap();
        let mut targets: Vec<_> = open.map(leads_to).filter(|path| path != Path::new("/dev/null")).collect();
        targets.sort();
        let [mount, socket] = &targets[..] else { panic!("{targets:?}") };
        let is_socket = socket.to_str().unwrap().starts_with("socket:[");
        assert!(mount == Path::new("/") && is_socket, "{targets:?}");
    }
}

#[test]
fn nothing_is_left_of_an_overlay_when_its_host_is_killed() {
    const NAME: &str = "linux::tests::overlay::nothing_is_left_of_an_overlay_when_its_host_is_killed";
    if std::env::var_os("METIER_KILLED_HOST").is_some() {
        let fixture = Fixture::new("echo 1 > file");
        let mut running =
            Talk::start(&fixture.launcher, &fixture.request("echo ready; echo 2 > file; sleep 1000"));
        running.line();
        let device = fs::metadata(fixture.host("")).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let server = overlay_server_of(&fixture.launcher).as_raw_pid();
        eprintln!("\nmounted {major}:{minor} {server} {}", fixture.folder.path().display());
        running.line();
        return;
    }
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env("METIER_KILLED_HOST", "1")
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("mounted ")).unwrap();
    let [_, device, server, folder] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let shows_device = || {
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("mountinfo"));
        let mounts: Vec<String> = processes.filter_map(|path| fs::read_to_string(path).ok()).collect();
        mounts.iter().any(|mounts| mounts.contains(&format!(" {device} ")))
    };
    assert!(shows_device());
    let pid = rustix::process::Pid::from_raw(server.parse().unwrap()).unwrap();
    let server = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    // Its other processes have its standard error.
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(wait_readable(&server), "its process goes on");
    assert_eq!(lines.next(), None);
    let began = std::time::Instant::now();
    while shows_device() {
        assert!(began.elapsed() < RESPONSE_TIMEOUT, "it is still mounted");
        std::thread::yield_now();
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn scripts_in_many_threads_share_an_overlay() {
    let fixture = Fixture::new("echo 1 > file");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let fixture = &fixture;
            scope.spawn(move || {
                for round in 0..5 {
                    let printed = fixture.script(&format!("cat file; echo x > file-{thread}-{round}"));
                    assert_eq!(printed, "1\n");
                }
            });
        }
    });
    assert_eq!(listing(&fixture.host("")).len(), 21);
    assert_eq!(listing(&fixture.at("project")).len(), 1);
}

#[test]
fn neither_setuid_bits_nor_devices_are_of_any_use_in_an_overlay() {
    let fixture = Fixture::new("cp /usr/bin/id id; cp /usr/bin/id own; echo x > file");
    let is_root = geteuid().is_root();
    if is_root {
        // Whoever may write to the project could have put them there before.
        let project = fixture.at("project");
        std::os::unix::fs::chown(project.join("id"), Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(project.join("id"), fs::Permissions::from_mode(0o6755)).unwrap();
        let made = Command::new("mknod").arg(project.join("null")).args(["c", "1", "3"]).status().unwrap();
        assert!(made.success());
    }
    let own = geteuid().as_raw();
    assert_eq!(fixture.script("./id -u; ./id -ru"), format!("{own}\n{own}\n"));
    let outside = Command::new(fixture.host("id")).arg("-u").output().unwrap();
    assert_eq!(String::from_utf8(outside.stdout).unwrap(), format!("{own}\n"));
    for attempt in ["mknod c c 1 3", "mknod b b 8 0", "mknod w c 0 0"] {
        let printed = fixture.script(&format!("{attempt} && echo made"));
        let refusals = ["Operation not permitted", "Permission denied"];
        assert!(refusals.iter().any(|refusal| printed.trim_end().ends_with(refusal)), "{attempt}: {printed}");
    }
    if is_root {
        for attempt in ["cat null", "echo x > null", "cp -a null other"] {
            let printed = fixture.script(&format!("{attempt} && echo done"));
            assert!(!printed.contains("done"), "{attempt}: {printed}");
        }
        assert_eq!(fs::read(fixture.host("null")).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
    fixture.script("chmod 6755 own");
    let own = fs::metadata(fixture.host("own")).unwrap();
    assert_eq!((own.uid(), own.gid()), (geteuid().as_raw(), rustix::process::getegid().as_raw()));
}

/// They could lead the kernel to other files, if it obeyed them.
#[test]
fn overlayfs_attributes_of_a_script_lead_nowhere() {
    const SET: &str = "
import os, sys
def put(path, name, value):
    try:
        os.setxattr(path, 'user.overlay.' + name, value)
    except OSError as error:
        print(error.errno)
for name, value in [('redirect', b'/secret'), ('metacopy', b''), ('origin', b'x' * 30), ('opaque', b'y'), ('whiteout', b'y')]:
    put(sys.argv[1], name, value)
    put(sys.argv[2], name, value)";
    let fixture = Fixture::new(
        "mkdir -p dir secret; echo in > dir/in; echo plain > file; echo x > secret/x; echo secret > target",
    );
    // In the overlay.
    fixture.script(&format!(
        "python3 -c \"{SET}\" dir file; mkdir new; touch new/file; python3 -c \"{SET}\" new new/file"
    ));
    assert_eq!(fixture.script("cat dir/in file; ls new dir"), "in\nplain\ndir:\nin\n\nnew:\nfile\n");
    for path in ["dir", "new"] {
        let path = fixture.at("upper").join(path);
        let redirect = rustix::fs::getxattr(&path, "user.overlay.redirect", &mut [0; 64]);
        let none = [rustix::io::Errno::NODATA, rustix::io::Errno::NOENT];
        assert!(redirect.is_err_and(|error| none.contains(&error)), "{redirect:?}");
    }
    // In the project itself, by an earlier script.
    let fixture = Fixture::new(&format!(
        "mkdir -p dir secret; echo in > dir/in; echo plain > file; echo x > secret/x; echo secret > target
         python3 -c \"{SET}\" dir file"
    ));
    let before = exact_listing(&fixture.at("project"));
    let mut request = fixture
        .request("cat dir/x file; ls dir; echo x >> file; echo x > dir/new; mv file file2; cat target file2");
    request.sandbox.files.protected_paths.hidden =
        vec![fixture.at("project/secret").into(), fixture.at("project/target").into()];
    let printed = fixture.run(&request);
    assert!(!printed.lines().any(|line| line == "x" || line == "secret"), "{printed}");
    assert_eq!(exact_listing(&fixture.at("project")), before);
}

#[test]
fn folders_that_cannot_be_overlaid_are_refused_with_a_reason() {
    const NAME: &str = "linux::tests::overlay::folders_that_cannot_be_overlaid_are_refused_with_a_reason";
    if !has_own_mounts(NAME) {
        return;
    }
    let fixture = Fixture::new("mkdir -p sub/deep; echo x > file");
    let mount = |at: &str, kind: &str| {
        fs::create_dir_all(fixture.at(at)).unwrap();
        let nothing = MountFlags::empty();
        rustix::mount::mount("none", fixture.at(at), kind, nothing, None).unwrap();
    };
    let refuse = |upper: &str, work: &str| {
        let lower = fs::File::open(fixture.at("project")).unwrap();
        let (upper, work) = (fixture.at(upper), fixture.at(work));
        for folder in [&upper, &work] {
            fs::create_dir_all(folder).unwrap();
        }
        let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
        let error = fixture.launcher.mount_overlay(request).err().unwrap();
        let Refusal { reason, help, .. } = error.refusal();
        assert!(!help.is_empty() && !reason.is_empty(), "{error:?}");
        error
    };
    let root = fixture.host("");
    fs::create_dir(root.join("inner")).unwrap();
    let inner = root.join("inner");
    let lower = fs::File::open(fixture.at("project")).unwrap();
    let request = OverlayRequest { lower: lower.as_fd(), upper: &inner, work: &inner };
    let error = fixture.launcher.mount_overlay(request).err().unwrap();
    assert!(matches!(error, OverlayError::Upper(_, UpperLack::OnOverlayfs)), "{error}");
    let other = tempfile::tempdir().unwrap();
    let error = refuse("", other.path().to_str().unwrap());
    assert!(matches!(error, OverlayError::Upper(_, UpperLack::ContainsLower)), "{error}");
    let error = refuse("upper3", "upper3/work");
    assert!(matches!(error, OverlayError::Mount(..)), "{error}");
    mount("ram", "ramfs");
    let error = refuse("ram/upper", "ram/work");
    assert!(matches!(error, OverlayError::Upper(_, UpperLack::UserXattrs)), "{error}");
    mount("tmp", "tmpfs");
    let error = refuse("upper4", "tmp/work");
    assert!(matches!(error, OverlayError::Mount(..)), "{error}");
    let absent = fixture.at("absent");
    let request = OverlayRequest { lower: lower.as_fd(), upper: &absent, work: &absent };
    let error = fixture.launcher.mount_overlay(request).err().unwrap();
    assert!(matches!(&error, OverlayError::Open(path, _) if *path == absent), "{error}");
    // What is in no mount of this namespace.
    let (upper, work) = (fixture.at("upper6"), fixture.at("work6"));
    for folder in [&upper, &work] {
        fs::create_dir(folder).unwrap();
    }
    let root = fixture.overlay().root();
    let overlay = fixture.launcher.mount_overlay(OverlayRequest { lower: root, upper: &upper, work: &work });
    assert!(
        matches!(overlay, Err(OverlayError::Replaced(_) | OverlayError::Mount(..))),
        "it is not mounted here: {overlay:?}"
    );
    mount("project/sub/deep", "tmpfs");
    let error = refuse("upper5", "work5");
    let OverlayError::MountBelow(lower, below) = &error else { panic!("{error}") };
    assert_eq!((lower, below), (&fixture.at("project"), &fixture.at("project/sub/deep")));
}

/// A project may be the home of the user, in which the folder for changes is.
#[test]
fn a_folder_for_changes_in_the_project_is_not_reached_through_the_overlay() {
    let mut fixture = Fixture::new("mkdir -p store/upper store/work; echo 1 > file");
    let (upper, work) = (fixture.at("project/store/upper"), fixture.at("project/store/work"));
    let lower = fs::File::open(fixture.at("project")).unwrap();
    let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
    fixture.overlay = Some(fixture.launcher.mount_overlay(request).unwrap());
    let printed = fixture.script(
        "echo 2 > file; cat file; exec 2> /dev/null; cat store/upper/file; echo x > store/upper/planted; ls store/upper store/work
         mv store/upper store/other; mv store store2; cat store2/upper/file; rm -rf store; cat store/upper/file; echo end",
    );
    assert_eq!(printed, "2\nend\n");
    assert!(!upper.join("planted").exists());
    assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "2\n");
    assert_eq!(fs::read_to_string(fixture.at("project/file")).unwrap(), "1\n");
}

#[test]
fn the_folder_that_the_kernel_works_in_can_be_removed() {
    let mut fixture = Fixture::new("mkdir dir");
    fixture.script("rmdir dir; echo x > file");
    fixture.overlay = None;
    for folder in ["work", "upper"] {
        fs::remove_dir_all(fixture.at(folder)).unwrap();
    }
}

#[test]
fn an_overlay_refuses_what_the_mount_of_its_lower_folder_refuses() {
    const NAME: &str = "linux::tests::overlay::an_overlay_refuses_what_the_mount_of_its_lower_folder_refuses";
    if !has_own_mounts(NAME) {
        return;
    }
    for (flags, expected) in [
        (MountFlags::empty(), "ran\nwritten\n"),
        (MountFlags::NOEXEC, "written\n"),
        (MountFlags::RDONLY | MountFlags::BIND, "ran\n"),
    ] {
        let mut fixture = Fixture::new("");
        let project = fixture.at("project");
        rustix::mount::mount("none", &project, "tmpfs", flags - MountFlags::RDONLY - MountFlags::BIND, None)
            .unwrap();
        fs::write(project.join("tool"), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(project.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        if flags.contains(MountFlags::RDONLY) {
            rustix::mount::mount_remount(&project, flags, "").unwrap();
        }
        fs::create_dir(fixture.at("work2")).unwrap();
        let lower = fs::File::open(&project).unwrap();
        let (upper, work) = (fixture.at("upper"), fixture.at("work2"));
        let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
        fixture.overlay = Some(fixture.launcher.mount_overlay(request).unwrap());
        let printed = fixture.script("exec 2> /dev/null; ./tool; echo x > file && echo written");
        assert_eq!(printed, expected, "{flags:?}");
        assert_eq!(fs::write(fixture.host("other"), "").is_ok(), expected.contains("written"), "{flags:?}");
    }
}

#[test]
fn without_namespaces_there_is_no_overlay_and_a_reason() {
    const NAME: &str = "linux::tests::overlay::without_namespaces_there_is_no_overlay_and_a_reason";
    if std::env::var_os("METIER_NO_NAMESPACES").is_none() {
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("METIER_NO_NAMESPACES", "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    fail_to_create_namespaces();
    let folder = tempfile::tempdir().unwrap();
    let lower = fs::File::open(folder.path()).unwrap();
    let (upper, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let request = OverlayRequest { lower: lower.as_fd(), upper: upper.path(), work: work.path() };
    let error = Launcher::default().mount_overlay(request).unwrap_err();
    assert!(matches!(&error, OverlayError::Namespaces(_)), "{error:?}");
    assert!(error.to_string().contains("an overlay needs namespaces: on Linux"), "{error}");
}

#[test]
fn a_project_on_another_file_system_than_its_changes_is_like_any_other() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let fixture = Fixture::new(LAY_OUT);
    let (upper, work) = (folder.path().join("upper"), folder.path().join("work"));
    for folder in [&upper, &work] {
        fs::create_dir(folder).unwrap();
    }
    let lower = fs::File::open(fixture.at("project")).unwrap();
    let request = OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work };
    let overlay = match fixture.launcher.mount_overlay(request) {
        // Linux before 6.6.
        Err(OverlayError::Upper(_, UpperLack::UserXattrs)) => return,
        mounted => mounted.unwrap(),
    };
    let fixture = Fixture { overlay: Some(overlay), ..fixture };
    let numbers = "find . ! -path ./other -printf '%D %i %p\\n' | sort";
    let before = fixture.script(numbers);
    let is_one_device = |printed: &str| {
        let devices = printed.lines().map(|line| line.split(' ').next());
        devices.collect::<std::collections::BTreeSet<_>>().len() == 1
    };
    assert!(is_one_device(&before), "{before}");
    assert_eq!(fixture.script("chmod 700 src src/one tool; echo x >> src/deep/two"), "");
    assert_eq!(fixture.script(numbers), before);
    fixture.script("echo new > created");
    assert!(is_one_device(&fixture.script(numbers)));
    assert_eq!(fixture.script(CHANGES), "");
    assert!(upper.join("created").exists() && !fixture.at("upper/created").exists());
}

/// The user whom every system gives to what belongs to nobody.
const NOBODY: u32 = 65_534;

/// The tests that run all others again.
const AGAIN: [&str; 2] = [
    "linux::tests::overlay::overlays_of_an_ordinary_user_promise_the_same",
    "linux::tests::overlay::overlays_on_a_kernel_without_landlock_or_newer_calls_promise_the_same",
];

fn run_all_again(tests: &Path, set_up: impl FnOnce(&mut Command) -> &mut Command) {
    let mut command = Command::new(tests);
    command.arg("linux::tests::overlay::").args(AGAIN.map(|name| ["--skip", name]).as_flattened());
    let ended = set_up(&mut command).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && !out.contains(" 0 passed"), "{out}\n{error}");
}

#[test]
fn overlays_of_an_ordinary_user_promise_the_same() {
    if !geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (tests, tmp) = (home.path().join("tests"), home.path().join("tmp"));
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::create_dir(&tmp).unwrap();
    for path in [home.path(), &tests, &tmp] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    run_all_again(&tests, |command| {
        let command = command.env("TMPDIR", &tmp).env("HOME", home.path()).current_dir(home.path());
        command.gid(NOBODY).uid(NOBODY)
    });
}

/// The calls that the kernel does not know in this process.
const REFUSED_CALLS: &str = "METIER_REFUSED_CALLS";

#[test]
fn overlays_on_a_kernel_without_landlock_or_newer_calls_promise_the_same() {
    for call in [libc::SYS_landlock_create_ruleset, libc::SYS_mount_setattr] {
        run_all_again(&std::env::current_exe().unwrap(), |command| {
            command.env(REFUSED_CALLS, call.to_string())
        });
    }
}

fn refuse_calls() {
    static REFUSED: std::sync::Once = std::sync::Once::new();
    let Ok(call) = std::env::var(REFUSED_CALLS) else { return };
    REFUSED.call_once(|| {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
        let rules = [(call.parse().unwrap(), Vec::new())].into();
        let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, arch);
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        seccompiler::apply_filter_all_threads(&program).unwrap();
    });
}

/// The folder for temporary files may be anywhere, and a project below `/tmp`.
#[test]
fn an_overlay_is_shown_in_a_private_tmp() {
    let fixture = Fixture::new("echo old > file");
    let own = tempfile::tempdir().unwrap();
    let mut request =
        fixture.request("cat file; echo new > file; ls /tmp | wc -l; echo x > /tmp/x; cat /tmp/x");
    let files = &mut request.sandbox.files;
    let (content, links) = (own.path().into(), Vec::new());
    files.private_folders =
        vec![PrivateFolder { path: "/tmp".into(), content, variables: Vec::new(), links }];
    files.write.push(own.path().into());
    assert_eq!(fixture.run(&request), "old\n1\nx\n");
    assert_eq!(fs::read_to_string(fixture.host("file")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(fixture.at("project/file")).unwrap(), "old\n");
}
