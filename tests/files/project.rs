//! A project in a temporary folder, with something outside it to reach for.

#![allow(clippy::needless_pass_by_value)] // `json!` at the place of use reads best

use std::fs;
use std::path::{Path, PathBuf};

use metier::error::{ErrorKind, Result};
use metier::host::{Files, SkillContext};
use metier::policy::{CancelToken, Permission, Permissions, RequestedPermissions};
use metier_core::host::RunContextBuilder;
use metier_core::host::files::portable;
use metier_core::policy::PathProtection;
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Project {
    folder: TempDir,
    pub is_portable: bool,
}

/// Runs a test with each way of opening files.
pub fn both_ways(test: impl Fn(&Project)) {
    for is_portable in [false, true] {
        let project = Project { folder: tempfile::tempdir().unwrap(), is_portable };
        fs::create_dir(project.root()).unwrap();
        fs::create_dir(project.outside("")).unwrap();
        fs::write(project.outside("secret.txt"), "secret").unwrap();
        test(&project);
        assert_eq!(
            fs::read_to_string(project.outside("secret.txt")).unwrap(),
            "secret",
            "the outside changed"
        );
    }
}

impl Project {
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn outside(&self, path: &str) -> PathBuf {
        self.folder.path().join("outside").join(path)
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub fn link(&self, path: &str, target: impl AsRef<Path>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    /// A run that may write, and what else is granted.
    pub fn run(&self, allow: &[&str]) -> SkillContext {
        self.run_until(allow, CancelToken::new())
    }

    pub fn run_until(&self, allow: &[&str], cancel: CancelToken) -> SkillContext {
        let mut granted = vec![Permission::WRITE];
        granted.extend(allow.iter().map(|text| text.parse::<Permission>().unwrap()));
        let protection = PathProtection::new([".metier/skills"]);
        SkillContext::builder("test")
            .project(self.files())
            .skill_files(self.files())
            .permissions(Permissions::new(RequestedPermissions::All, granted, protection))
            .cancel(cancel)
            .build()
    }

    pub fn files(&self) -> Files {
        let files = Files::open(&self.root()).unwrap();
        if self.is_portable { portable(files) } else { files }
    }

    pub fn call(&self, name: &str, args: Value) -> Result<Value> {
        call(&self.run(&[]), name, args)
    }

    /// The call answers with this.
    pub fn answers(&self, name: &str, args: Value, expected: Value) {
        assert_eq!(self.call(name, args.clone()).unwrap(), expected, "{name} {args}");
    }

    /// The call is refused with a sentence that has these words.
    pub fn refuses(&self, kind: ErrorKind, name: &str, args: Value, words: &str) {
        let refused = match self.call(name, args.clone()) {
            Err(refused) => refused,
            Ok(answer) => panic!("{name} {args} answered {answer}"),
        };
        assert!(
            refused.kind() == kind && refused.message().contains(words),
            "{name} {args}: {}: {refused}",
            refused.kind()
        );
    }

    /// Every function that opens a path refuses this one with that kind, and nothing appears outside.
    pub fn refuses_everything(&self, kind: ErrorKind, path: &str) {
        for (name, args) in every_use(path) {
            self.refuses(kind, name, args, "");
        }
        let left: Vec<_> =
            fs::read_dir(self.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret.txt"], "{path} made something outside");
    }
}

pub fn call(ctx: &SkillContext, name: &str, args: Value) -> Result<Value> {
    let Value::Array(args) = args else { panic!("arguments are a list") };
    ctx.call(name, args)
}

/// Every function with a path, on this one.
pub fn every_use(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!([path])),
        ("head", json!([path])),
        ("tail", json!([path])),
        ("list_dir", json!([path])),
        ("stat", json!([path])),
        ("tree", json!([path])),
        ("grep", json!(["secret", path])),
        ("find", json!([path, "secret"])),
        ("write", json!([path, "x"])),
        ("append", json!([path, "x"])),
        ("edit", json!([path, "secret", "x"])),
        ("mkdir", json!([path])),
        ("asset", json!([path])),
    ]
}
