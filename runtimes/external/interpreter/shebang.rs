//! The first line of a script, where it names a program: `#!/usr/bin/env -S python3 -u`.

/// The program a shebang names, and the arguments it gives it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtimes::external) struct Shebang<'a> {
    /// The last part of the program's path: where it lies on the author's machine says nothing about this one.
    pub(in crate::runtimes::external) program: &'a str,
    /// What stands between program and script.
    pub(in crate::runtimes::external) args: Vec<&'a str>,
}

/// Longer lines are not shebangs; Linux itself stops at 256 bytes.
const MAX_LINE_BYTES: usize = 4096;

/// The shebang of a script, or nothing. `env` is looked through: its options and assignments are dropped.
pub(in crate::runtimes::external) fn parse(source: &[u8]) -> Option<Shebang<'_>> {
    let rest = source.strip_prefix(b"#!")?;
    let line = rest.split(|byte| *byte == b'\n').next().filter(|line| line.len() <= MAX_LINE_BYTES)?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace().peekable();
    let mut program = base_name(words.next()?);
    if program == "env" {
        while let Some(option) = words.next_if(|word| word.starts_with('-') || word.contains('=')) {
            // These two take the next word with them.
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
            ("#!/home/someone/venv/bin/python\n", "python", &[]),
        ] {
            let args = args.to_vec();
            assert_eq!(parse(line.as_bytes()), Some(Shebang { program, args }), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_shebang_is_none() {
        let endless = [b"#!/bin/sh ".as_slice(), &[b'a'; 5000]].concat();
        for source in
            [b"".as_slice(), b"#!", b"#!\n/bin/sh", b"#!/usr/bin/env", b" #!/bin/sh", b"#!\xff", &endless]
        {
            assert_eq!(parse(source), None, "{:?}", String::from_utf8_lossy(source));
        }
    }
}
