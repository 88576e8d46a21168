//! Files of `/proc`, as the kernel writes them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Pid;

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

/// What `/proc` says of a process at one moment.
pub(super) struct ProcessStat {
    pub(super) parent: Option<Pid>,
    /// Its process group.
    pub(super) group: i32,
}

impl ProcessStat {
    pub(super) fn read(pid: Pid) -> Option<Self> {
        Self::parse(&read_lossy(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    /// `17 (a name) S 1 17 …`
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut numbers = rest.split_ascii_whitespace().skip(1).map(str::parse);
        Some(Self { parent: Pid::from_raw(numbers.next()?.ok()?), group: numbers.next()?.ok()? })
    }
}

/// The process that this thread belongs to.
pub(super) fn thread_group(thread: Pid) -> Option<Pid> {
    let status = read_lossy(format!("/proc/{}/status", thread.as_raw_nonzero())).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(number.trim().parse().ok()?)
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

    #[test]
    fn a_process_may_have_any_name() {
        let stat = ProcessStat::parse("17 (a) S 9 (b) R 3 5 7 0 -1").unwrap();
        assert_eq!((stat.parent, stat.group), (Pid::from_raw(3), 5));
        assert!(ProcessStat::parse("17 (a) S 0 5 7").unwrap().parent.is_none());
        assert!(ProcessStat::parse("17 (a").is_none());
    }
}
