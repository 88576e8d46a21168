//! Parses the shebang of a script: `#!/usr/bin/env -S python3 -u`.

use metier_core::byte_order_mark::bytes_without_mark;

/// The program that a shebang names, and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shebang<'a> {
    /// The file name of the program. Its folder on the author's machine says nothing about this machine.
    pub(crate) program: &'a str,
    /// The arguments before the script.
    pub(crate) args: Vec<&'a str>,
}

/// Programs that fetch others and start them, and the words of theirs that come before the name.
const LAUNCHERS: [&str; 6] = ["npx", "pnpx", "bunx", "pnpm", "yarn", "npm"];
const LAUNCHER_WORDS: [&str; 3] = ["dlx", "exec", "x"];

impl<'a> Shebang<'a> {
    /// The program that runs the script in the end: `tsx` of `npx --yes tsx@4`.
    pub(crate) fn launched_program(&self) -> Option<&'a str> {
        if !LAUNCHERS.contains(&self.program) {
            return Some(self.program);
        }
        let is_name = |word: &&&str| !word.starts_with('-') && !LAUNCHER_WORDS.contains(*word);
        let name = self.args.iter().find(is_name)?;
        Some(name.split('@').next().unwrap_or(name))
    }
}

/// Programs that start Python with the packages that a script names in itself.
const PYTHON_LAUNCHERS: [&str; 2] = ["uv", "pipx"];

impl Shebang<'_> {
    /// Whether the line starts Python with the script: `uv run --script`.
    pub(crate) fn launches_python(&self) -> bool {
        // The value of an option may be any word, such as the version of Python.
        let is_option = |word: &&&str| !word.starts_with('-');
        let mut words = self.args.iter();
        PYTHON_LAUNCHERS.contains(&self.program)
            && words.by_ref().find(is_option).is_some_and(|word| *word == "run")
            && (self.program == "pipx" || words.any(|word| matches!(*word, "--script" | "-s")))
    }
}

/// A longer line is not a shebang. Linux itself reads 256 bytes.
const MAX_LINE_BYTES: usize = 4096;

/// The shebang of a script. For `env` it is the program that `env` starts, without the options and assignments of `env`. The
/// kernel finds none behind a byte order mark, but it does not start scripts: the program that is found here does.
pub(crate) fn parse(source: &[u8]) -> Option<Shebang<'_>> {
    let rest = bytes_without_mark(source).strip_prefix(b"#!")?;
    let line = rest.split(|byte| *byte == b'\n').next().filter(|line| line.len() <= MAX_LINE_BYTES)?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace().peekable();
    let mut program = base_name(words.next()?);
    if program == "env" {
        while let Some(option) = words.next_if(|word| word.starts_with('-') || word.contains('=')) {
            // The next word is the value of these options.
            if matches!(option, "-u" | "-C") {
                words.next();
            }
        }
        program = base_name(words.next()?);
    }
    Some(Shebang { program, args: words.collect() })
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_behind_paths_and_env() {
        for (line, program, args) in [
            ("#!/bin/sh", "sh", &[][..]),
            ("#! /usr/local/bin/python3.11 -u\r\nprint()", "python3.11", &["-u"]),
            ("#!/usr/bin/env python3\n", "python3", &[]),
            ("#!/usr/bin/env -S node --no-warnings\n", "node", &["--no-warnings"]),
            ("#!/usr/bin/env -S -i -u HOME A=1 bash -e\n", "bash", &["-e"]),
            ("\u{feff}#!/bin/bash -e\n", "bash", &["-e"]),
            ("#!/home/someone/venv/bin/python\n", "python", &[]),
        ] {
            let args = args.to_vec();
            assert_eq!(parse(line.as_bytes()), Some(Shebang { program, args }), "{line:?}");
        }
    }

    #[test]
    fn what_a_launcher_starts_is_the_program() {
        for (line, program) in [
            ("#!/usr/bin/env npx tsx\n", Some("tsx")),
            ("#!/usr/bin/env -S npx --yes tsx@4.19 --no-warnings\n", Some("tsx")),
            ("#!/usr/bin/env -S pnpm dlx ts-node\n", Some("ts-node")),
            ("#!/usr/bin/env tsx\n", Some("tsx")),
            ("#!/usr/bin/env npx\n", None),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap().launched_program(), program, "{line:?}");
        }
    }

    #[test]
    fn what_starts_python_with_a_script_is_known() {
        for (line, expected) in [
            ("#!/usr/bin/env -S uv run --script\n", true),
            ("#!/usr/bin/env -S uv run -s\n", true),
            ("#!/usr/bin/env -S uv --quiet run --python 3.12 --script\n", true),
            ("#!/usr/bin/env -S pipx run\n", true),
            // What these start, another word says.
            ("#!/usr/bin/env -S uv run\n", false),
            ("#!/usr/bin/env -S uv run node\n", false),
            ("#!/usr/bin/env -S uv tool run --script\n", false),
            ("#!/usr/bin/env python3\n", false),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap().launches_python(), expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_no_shebang_is_none() {
        let endless = [b"#!/bin/sh ".as_slice(), &[b'a'; 5000]].concat();
        for source in [
            b"".as_slice(),
            b"#!",
            b"#!\n/bin/sh",
            b"#!/usr/bin/env",
            b" #!/bin/sh",
            "\u{feff}\u{feff}#!/bin/sh".as_bytes(),
            b"#!\xff",
            &endless,
        ] {
            assert_eq!(parse(source), None, "{:?}", String::from_utf8_lossy(source));
        }
    }
}
