//! What a failed script wrote, without secrets.

use metier_core::host::Redacted;

/// Both streams of a run. What is on standard error says why a script failed, or what is on standard output if that is blank.
pub(crate) struct RunOutput {
    stdout: Redacted<String>,
    stderr: Redacted<String>,
}

impl RunOutput {
    pub(crate) fn new(stdout: Redacted<String>, stderr: Redacted<String>) -> Self {
        Self { stdout, stderr: stderr.map(without_startup_files) }
    }

    pub(crate) fn stdout(&self) -> &str {
        self.stdout.as_inner()
    }

    pub(crate) fn stderr(&self) -> &str {
        self.stderr.as_inner()
    }

    /// Whether only standard output can say why the script failed.
    pub(crate) fn is_printed_only(&self) -> bool {
        self.stderr().trim().is_empty()
    }

    /// The stream that says why the script failed.
    pub(crate) fn error_text(&self) -> &Redacted<String> {
        if self.is_printed_only() { &self.stdout } else { &self.stderr }
    }

    /// Standard output, if standard error says why the script failed.
    pub(crate) fn printed(&self) -> Option<&str> {
        (!self.is_printed_only()).then(|| self.stdout())
    }
}

/// Files that a shell reads at its start, and cannot read in a sandbox: administrators put passwords of proxies there.
const STARTUP_FILES: [&str; 3] = [": /etc/profile: ", ": /etc/bash.bashrc: ", ": /etc/bashrc: "];

/// Without what a login shell says of them, which is no reason to fail.
fn without_startup_files(text: String) -> String {
    let is_startup = |line: &str| {
        line.trim_end().ends_with("Permission denied") && STARTUP_FILES.iter().any(|file| line.contains(file))
    };
    if !text.lines().any(is_startup) {
        return text;
    }
    text.split_inclusive('\n').filter(|line| !is_startup(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_shell_does_not_fail_by_the_files_of_its_start() {
        let startup =
            "/bin/bash: /etc/profile: Permission denied\nbash: /etc/bash.bashrc: Permission denied\n";
        assert_eq!(
            without_startup_files(format!("{startup}l.sh: line 2: nvm: not found\n")),
            "l.sh: line 2: nvm: not found\n"
        );
        for other in
            ["cat: /etc/profile: No such file or directory\n", "l.sh: /etc/shadow: Permission denied\n"]
        {
            assert_eq!(without_startup_files(other.to_owned()), other);
        }
    }
}
