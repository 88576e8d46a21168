//! What a permission means, in words for the person who is asked about it.

use super::permission::Permission;

impl Permission {
    /// What it lets a skill do, such as `change files at or below out`. A scope stands there as it is: escape it before you show it.
    pub fn meaning(&self) -> String {
        meaning(self)
    }
}

fn meaning(permission: &Permission) -> String {
    let scope = match permission.scope() {
        Some("") => "the project",
        Some(scope) => scope,
        None => "",
    };
    match (permission.name(), permission.scope()) {
        ("read", None) => "read the files of the project, except protected ones".into(),
        ("read", Some(_)) => format!("read files at or below {scope}, protected ones too"),
        ("write", None) => "change any file of the project, except protected ones".into(),
        ("write", Some(_)) => format!("change files at or below {scope}"),
        ("net", None) => "reach any address on the internet".into(),
        ("net", Some(_)) => format!("reach {scope} over the network"),
        ("tool", _) => format!("call the tool {scope}"),
        ("skill", _) => format!("run the skill {scope}"),
        ("secret", _) => format!("read the secret {scope}"),
        ("env", _) => format!("be given the environment variable {scope}"),
        ("sample", _) => "ask the model of this program".into(),
        ("shm", _) => "share memory with other programs by name".into(),
        ("state", _) => "keep its values and its home folder for later runs in this project".into(),
        ("store", _) => {
            format!("read and change the values of the store {scope}, which skills of this project share")
        }
        ("own-folder", _) => "change the files of its own folder, its scripts too".into(),
        ("user-packages", _) => "import the Python packages that you installed for all programs".into(),
        ("home", _) => format!("read {scope} in your home folder"),
        ("home-write", _) => format!("read and change {scope} in your home folder"),
        ("git", None) => "read the repository of the project where it lies outside of the project".into(),
        ("git", Some(_)) => format!("read the repository {scope}, outside of the project"),
        ("wasi", _) => "use the clock and random numbers".into(),
        ("exec", None) => "start processes in a sandbox".into(),
        ("exec", Some(_)) => "start processes without a sandbox, with all your rights".into(),
        _ => "something that this version does not know".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permission_has_words_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for text in [
            "read",
            "read:.env",
            "write",
            "write:out",
            "write:.",
            "net",
            "net:example.com",
            "tool:x",
            "skill:x",
            "secret:x",
            "env:X",
            "sample",
            "shm",
            "wasi",
            "state",
            "store:x",
            "own-folder",
            "user-packages",
            "home:.app",
            "home-write:.app",
            "git",
            "git:/srv/app.git",
            "exec",
            "exec:unsandboxed",
        ] {
            let words = text.parse::<Permission>().unwrap().meaning();
            assert!(!words.contains("does not know"), "{text}");
            assert!(seen.insert(words), "{text}");
        }
    }
}
