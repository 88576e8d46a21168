//! Files of `/proc`, as the kernel writes them.

use std::fs;
use std::io;
use std::path::Path;

/// Reads the file of this name in a process's directory.
pub(super) fn read_proc_file(at: &str, name: &str) -> String {
    read_lossy(format!("{at}/{name}")).unwrap_or_default()
}

/// Reads a file of the kernel. Process and file names in it need not be UTF-8.
pub(super) fn read_lossy(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The sum of the lines with these names, in bytes.
pub(super) fn sum_kb_lines(text: &str, names: &[&str]) -> u64 {
    let value = |line: &str| {
        let (_, value) = names.iter().find_map(|name| Some((name, line.strip_prefix(name)?)))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    text.lines().filter_map(value).sum::<u64>() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_the_lines_that_are_named() {
        let text = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t      7 kB\nRssShmem:\t      20 kB\n";
        assert_eq!(sum_kb_lines(text, &["RssAnon:", "RssShmem:"]), 120 << 10);
        assert_eq!(sum_kb_lines("Pss_Anon: x\nPss_Anon: 3 kB\nPss: 5 kB", &["Pss_Anon:"]), 3 << 10);
    }
}
