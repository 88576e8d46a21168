//! What an overlay promises.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use super::{launch_request, run};
use crate::*;

/// A project, a folder for changes, and the overlay of both.
struct Fixture {
    folder: tempfile::TempDir,
    launcher: Launcher,
    overlay: Option<Overlay>,
}

impl Fixture {
    fn new(lay_out: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "upper", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut fixture = Self { folder, launcher: Launcher::default(), overlay: None };
        let laid_out = std::process::Command::new("bash")
            .args(["-ec", lay_out])
            .current_dir(fixture.at("project"))
            .status()
            .unwrap();
        assert!(laid_out.success());
        fixture.overlay = Some(fixture.mount().unwrap());
        fixture
    }

    fn mount(&self) -> Result<Overlay, OverlayError> {
        let lower = fs::File::open(self.at("project")).unwrap();
        let (upper, work) = (self.at("upper"), self.at("work"));
        self.launcher.mount_overlay(OverlayRequest { lower: lower.as_fd(), upper: &upper, work: &work })
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

#[test]
fn what_a_script_changes_goes_to_the_other_folder() {
    let fixture = Fixture::new("echo old > file");
    assert_eq!(fixture.script("echo new > file; echo x > other; cat file"), "new\n");
    assert_eq!(fs::read_to_string(fixture.at("project/file")).unwrap(), "old\n");
    assert!(!fixture.at("project/other").exists());
    assert_eq!(fs::read_to_string(fixture.at("upper/file")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(fixture.host("file")).unwrap(), "new\n");
}
