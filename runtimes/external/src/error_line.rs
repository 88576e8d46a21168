//! Why a script failed, in what it wrote: the line that says so, and where in the script it happened.
//!
//! Most programs say it last. Interpreters go on with a stack, with notes or with their version, and a script with what it cleans up.
//! Each family of interpreters has a row, found by lines that only it writes.

use std::path::Path;

/// The line that says why, and one of the last lines of the report.
type Report = (usize, usize);

/// How interpreters report an error that nobody caught.
struct Family {
    /// Whether only this family writes such a line. The last one of a text counts.
    is_mark: fn(&str) -> bool,
    /// Its report, by the number of the marked line.
    find: fn(&[&str], usize) -> Option<Report>,
    /// Whether the newest call stands last in the stack, above the line that says why.
    has_newest_call_last: bool,
}

const FAMILIES: [Family; 11] = [
    // Python, with notes below its exceptions.
    Family {
        is_mark: |line| line.starts_with("  File \"") && line.contains("\", line "),
        find: python_exception,
        has_newest_call_last: true,
    },
    Family {
        is_mark: |line| line.starts_with("  + Exception Group Traceback"),
        find: python_group,
        has_newest_call_last: true,
    },
    // Node, Bun, Deno, Java and .NET: `    at f (file:1:2)`.
    Family { is_mark: is_stack_frame, find: title_above_stack, has_newest_call_last: false },
    // Node, for a value that is not an error: below the line with the mark of its place.
    Family {
        is_mark: |line| line.starts_with("(Use `node --trace-uncaught"),
        find: |lines, at| {
            let place = lines[..at].iter().rposition(|line| is_caret_line(line));
            Some((place.map_or(at.checked_sub(1)?, |place| place + 1), at))
        },
        has_newest_call_last: false,
    },
    // Node, for an error without a stack but with fields, and Elixir.
    Family {
        is_mark: |line| line.starts_with('[') && line.ends_with("] {") || line.starts_with("** ("),
        find: |_, at| Some((at, at)),
        has_newest_call_last: false,
    },
    // PHP and Dart: frames with numbers, the first of them 0.
    Family {
        is_mark: |line| line.starts_with("#0 "),
        find: |lines, at| {
            let title = lines[..at].iter().rposition(|line| *line != "Stack trace:")?;
            let frames = lines[at..].iter().take_while(|line| line.starts_with('#')).count();
            Some((title, at + frames - 1))
        },
        has_newest_call_last: false,
    },
    // Lua, Julia and Haskell: a heading between the error and its stack.
    Family {
        is_mark: |line| {
            ["stack traceback:", "Stacktrace:"].contains(&line) || line.starts_with("CallStack (from")
        },
        find: |lines, at| {
            let above = &lines[at.saturating_sub(MAX_TITLE_DISTANCE)..at];
            let title = above.iter().rposition(|line| line.starts_with("lua") || line.starts_with("ERROR: "));
            Some((title.map_or(at.checked_sub(1)?, |title| at - above.len() + title), at))
        },
        has_newest_call_last: false,
    },
    Family {
        is_mark: is_ruby_error,
        find: |lines, at| Some(ruby_error(lines, at)),
        has_newest_call_last: false,
    },
    // Rust: the message stands below the line that names the thread, in older versions in it.
    Family {
        is_mark: |line| line.starts_with("thread '") && line.contains(" panicked at "),
        find: |lines, at| {
            let message = if lines[at].ends_with(':') { at + 1 } else { at };
            (message < lines.len()).then_some((message, message))
        },
        has_newest_call_last: false,
    },
    // Go: a panic, and the stacks of all goroutines.
    Family {
        is_mark: |line| line.starts_with("goroutine ") && line.ends_with("]:"),
        find: |lines, at| {
            let is_title = |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
            Some((lines[..at].iter().rposition(is_title)?, lines.len() - 1))
        },
        has_newest_call_last: false,
    },
    // V8, which ends the process.
    Family {
        is_mark: |line| line.starts_with("FATAL ERROR: ") || line.starts_with("# Fatal "),
        find: |lines, at| Some((at, lines.len() - 1)),
        has_newest_call_last: false,
    },
];

/// What stands below an error without a stack, or ends one.
const TRAILER_STARTS: &str = "Node.js v|Bun v|exit status |BEGIN failed--|Execution of |Compilation failed in require|Execution halted|Calls: |note: |\
    stack backtrace:";

/// How an error begins that has no name.
const TITLE_STARTS: &str =
    "Caused by: |Exception in thread |Unhandled exception|Uncaught |error: |ERROR: |fatal: |Error in ";

/// How the errors of the system end.
const SYSTEM_ERRORS: &str = ": No such file or directory|: Permission denied|: Operation not permitted|: Read-only file system|\
    : No space left on device|: Connection refused|: Is a directory|: Not a directory|: command not found|: not found";

/// Words that a line has which says why something failed.
const ERROR_WORDS: &str = "error|fail|fatal|cannot|can't|could not|unable|denied|not found|no such|invalid|missing|exception|refused|abort|not ";

/// How many lines at the end are looked at.
const MAX_LINES: usize = 400;
/// Lines below a report, beyond which it was not why the script ended.
const MAX_LINES_BELOW: usize = 20;
/// Lines between an error and its stack: a message of several lines, a part of the source.
const MAX_TITLE_DISTANCE: usize = 20;
/// Lines above the last one that may say why, where it does not.
const MAX_LINES_BEFORE_LAST: usize = 5;

/// The line that says why the script failed, trimmed; `None` if the text is blank.
pub(super) fn error_line(text: &str) -> Option<&str> {
    let lines = last_lines(text);
    let found = find_error(&lines)?;
    let line = lines[found.line].trim().trim_start_matches("| ");
    Some(line.strip_suffix(" {").unwrap_or(line))
}

/// The line of the script of this name where it failed, if the text names it. `folder` is that of the skill: a file of the
/// same name elsewhere is another one.
pub(super) fn error_place(text: &str, script: &str, folder: Option<&Path>) -> Option<u32> {
    let lines = last_lines(text);
    let found = find_error(&lines)?;
    let place = |line: &&str| line_in(line, script, folder);
    let (above, below) = lines.split_at(found.line);
    let mut above = above.iter().rev();
    if found.has_newest_call_last {
        return above.find_map(place);
    }
    below.iter().find_map(place).or_else(|| above.take(MAX_TITLE_DISTANCE).find_map(place))
}

/// Where a text says why a script failed.
struct FoundError {
    line: usize,
    has_newest_call_last: bool,
}

/// The last lines that are not blank. Of one that was written over, what is seen at the end.
fn last_lines(text: &str) -> Vec<&str> {
    fn visible_part(line: &str) -> &str {
        line.trim_end().rsplit('\r').next().unwrap_or_default()
    }
    let lines = text.lines().rev().map(visible_part).filter(|line| !line.trim().is_empty());
    let mut lines: Vec<&str> = lines.take(MAX_LINES).collect();
    lines.reverse();
    lines
}

fn find_error(lines: &[&str]) -> Option<FoundError> {
    let last = lines.len().checked_sub(1)?;
    let reports = FAMILIES.iter().filter_map(|family| {
        let mut marks = (0..lines.len()).rev().filter(|at| (family.is_mark)(lines[*at]));
        let (line, end) = marks.find_map(|at| (family.find)(lines, at))?;
        Some((line, report_end(lines, end), family.has_newest_call_last))
    });
    let newest = reports.max_by_key(|(line, ..)| *line);
    if let Some((line, end, has_newest_call_last)) =
        newest.filter(|(_, end, _)| last - end <= MAX_LINES_BELOW)
    {
        // Whoever caught it may have said what came of it.
        let is_later = |at: &usize| {
            let small = lines[*at].to_ascii_lowercase();
            ["error: ", "fatal: "].iter().any(|start| small.starts_with(start))
                || !is_indented(lines[*at]) && ends_system_error(lines[*at])
        };
        return Some(match (end + 1..lines.len()).rev().find(is_later) {
            Some(line) => FoundError { line, has_newest_call_last: false },
            None => FoundError { line, has_newest_call_last },
        });
    }
    let line = line_above_trailers(lines).or_else(|| line_before_last(lines)).unwrap_or(last);
    Some(FoundError { line, has_newest_call_last: false })
}

fn ends_system_error(line: &str) -> bool {
    SYSTEM_ERRORS.split('|').any(|end| line.ends_with(end))
}

/// The last line of a report: what is indented, and what closes it, belongs to it.
fn report_end(lines: &[&str], from: usize) -> usize {
    let is_part = |line: &&&str| is_indented(line) || is_closing(line) || is_trailer(line);
    from + lines[from + 1..].iter().take_while(is_part).count()
}

/// The error above what interpreters add; `None` if they added nothing.
fn line_above_trailers(lines: &[&str]) -> Option<usize> {
    let last = lines.iter().rposition(|line| !is_trailer(line) && *line != "}")?;
    if last + 1 == lines.len() {
        return None;
    }
    let title = title_above(lines, last + 1);
    let title = title.or((lines[lines.len() - 1] != "}").then_some(last))?;
    // R breaks the line of a long call.
    let continues = lines[title].starts_with("Error in ") && lines[title].ends_with(':') && title < last;
    Some(if continues { title + 1 } else { title })
}

/// An error in the lines before the last one, if that says only that the script ended.
fn line_before_last(lines: &[&str]) -> Option<usize> {
    let (last, before) = lines.split_last()?;
    // Bash repeats the line of the script below its syntax error.
    if last.ends_with('\'') && before.last().is_some_and(|line| line.contains(": syntax error")) {
        return before.len().checked_sub(1);
    }
    let small = last.to_lowercase();
    // A trap of a shell says no more than the line.
    let is_of_trap = small.contains("line ") && small.ends_with(|c: char| c.is_ascii_digit());
    if is_indented(last) || !is_of_trap && ERROR_WORDS.split('|').any(|word| small.contains(word)) {
        return None;
    }
    let start = before.len().saturating_sub(MAX_LINES_BEFORE_LAST);
    let is_error = |line: &&str| is_error_title(line) || is_perl_error(line) || ends_system_error(line);
    before[start..].iter().rposition(is_error).map(|at| start + at)
}

/// The last line above that begins like an error.
fn title_above(lines: &[&str], at: usize) -> Option<usize> {
    let start = at.saturating_sub(MAX_TITLE_DISTANCE);
    lines[start..at].iter().rposition(|line| is_error_title(line)).map(|title| start + title)
}

/// The first line below the frames that is not indented.
fn python_exception(lines: &[&str], at: usize) -> Option<(usize, usize)> {
    let heading = lines[..at].iter().rposition(|line| !is_indented(line));
    // "Exception ignored in …", "Exception in thread …": it did not end the script.
    let was_survived = |heading: usize| heading > 0 && lines[heading - 1].starts_with("Exception ");
    if heading.is_some_and(was_survived) {
        return None;
    }
    let exception = at + lines[at..].iter().position(|line| !is_indented(line))?;
    Some((exception, exception))
}

/// The group itself, above what it holds.
fn python_group(lines: &[&str], at: usize) -> Option<(usize, usize)> {
    let is_title = |line: &&str| line.strip_prefix("  | ").is_some_and(|line| !is_indented(line));
    let group = at + lines[at..].iter().position(is_title)?;
    Some((group, group))
}

/// What stands above the frames, unless it continues an error that begins further up.
fn title_above_stack(lines: &[&str], at: usize) -> Option<(usize, usize)> {
    let above = lines[..at].iter().rposition(|line| !is_indented(line) && !is_closing(line))?;
    if is_trailer(lines[above]) {
        return None;
    }
    let is_title = ["Error: ", "Exception: "].iter().any(|part| lines[above].contains(part));
    let title = Some(above).filter(|_| is_title).or_else(|| title_above(lines, above + 1));
    Some((title.unwrap_or(above), at))
}

/// `main.rb:1:in 'f': boom (RuntimeError)`.
fn is_ruby_error(line: &str) -> bool {
    let is_of_method = || (line.contains(":in '") || line.contains(":in `")) && line.contains("': ");
    !is_indented(line) && (is_of_method() || line.contains(".rb:") && line.ends_with("Error)"))
}

/// `boom at main.pl line 3.`
fn is_perl_error(line: &str) -> bool {
    let place = line.rsplit_once(" line ").filter(|(text, _)| !is_indented(line) && text.contains(" at "));
    place.is_some_and(|(_, rest)| rest.trim_end_matches('.').chars().all(|c| c.is_ascii_digit()))
}

/// The error that ended the script, above those that caused it.
fn ruby_error(lines: &[&str], mut at: usize) -> Report {
    let end = at;
    while let Some(above) = lines[..at].iter().rposition(|line| !is_indented(line))
        && is_ruby_error(lines[above])
    {
        at = above;
    }
    (at, end)
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// What ends the fields of an error in Node.
fn is_closing(line: &str) -> bool {
    ["}", "]", "})"].contains(&line)
}

/// The marks below a part of the source: `    ^^^`.
fn is_caret_line(line: &str) -> bool {
    line.contains('^') && line.chars().all(|c| "^~ |\t".contains(c))
}

fn is_trailer(line: &str) -> bool {
    let is_frame =
        || is_indented(line) && (line.trim_start().starts_with("from ") || line.contains(" called at "));
    is_caret_line(line) || TRAILER_STARTS.split('|').any(|start| line.starts_with(start)) || is_frame()
}

/// Whether a line is a frame of a stack, as Java, Node and Deno write it.
fn is_stack_frame(line: &str) -> bool {
    let Some(frame) = line.trim_start().strip_prefix("at ").filter(|_| is_indented(line)) else {
        return false;
    };
    let frame = frame.trim_end_matches(" {");
    // A sentence may begin with the word, too.
    let has_line = frame.contains(':') && frame.ends_with(|c: char| c.is_ascii_digit());
    has_line || frame.ends_with([')', '>']) || !frame.contains(' ')
}

/// Whether a line begins like an error: `TypeError: …`, `Error [CODE]: …`, `java.io.IOException: …`, `a.c:1:2: error: …`.
fn is_error_title(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    let name = name.split(" [").next().unwrap_or_default();
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c));
    TITLE_STARTS.split('|').any(|start| line.starts_with(start))
        || is_name && ["Error", "Exception"].iter().any(|end| name.ends_with(end))
        || line.contains(": error: ")
        || is_ruby_error(line)
}

/// The number of the line behind the name of the script: `main.js:3:7`, `main.py", line 3`, `main.sh: line 3:`.
fn line_in(text: &str, script: &str, folder: Option<&Path>) -> Option<u32> {
    text.match_indices(script).find_map(|(at, _)| {
        let is_whole = is_path_start(&text[..at], folder);
        let rest = text[at + script.len()..].trim_start_matches(['"', '\'', ',', ':', ' ']);
        let is_behind = rest.len() < text.len() - at - script.len();
        let rest = rest.strip_prefix("on ").unwrap_or(rest);
        let named = rest.strip_prefix("line ");
        let number = named.unwrap_or(rest);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let after = &number[end..];
        // `main.sh: 12 files are wrong` is about no line.
        let is_end =
            after.trim().is_empty() || after.starts_with([':', ',', ')']) || after.starts_with(" +0x");
        let is_line = named.is_some() || is_end;
        number[..end].parse().ok().filter(|line| is_whole && is_behind && is_line && *line > 0)
    })
}

/// Whether the path that goes on behind this text begins in the folder.
fn is_path_start(before: &str, folder: Option<&Path>) -> bool {
    let ends_no_path = |text: &str| {
        let text = text.strip_suffix("file://").unwrap_or(text);
        text.is_empty() || text.ends_with(['"', '\'', ' ', '(', '\t'])
    };
    let Some(above) = before.strip_suffix('/') else { return ends_no_path(before) };
    let Some(folder) = folder.and_then(Path::to_str) else { return true };
    [folder, "."].into_iter().any(|start| above.strip_suffix(start).is_some_and(ends_no_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_why_a_script_failed() {
        for (text, line) in [
            ("first\n\n last \n\n", "last"),
            ("Traceback (most recent call last):\n  File \"x\"\nValueError: bad", "ValueError: bad"),
            ("Error: usage\n  --at PLACE", "--at PLACE"),
            ("only", "only"),
        ] {
            assert_eq!(error_line(text), Some(line), "{text}");
        }
        assert_eq!(error_line(" \n\t\n"), None);
    }

    #[test]
    fn what_interpreters_write_below_the_error_is_passed_over() {
        let node = "node:fs:2380\n    return binding.writeFileUtf8(\n\nError: EROFS: read-only file system, open 'out.txt'\n    \
                    at x (node:fs:1:1) {\n  errno: -30,\n  code: 'EROFS',\n  path: 'out.txt'\n}\n\nNode.js v20.20.2\n";
        let coded = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left-pad'\n    at x (y:1:1)\n\nNode.js v22.1.0";
        let deno = "error: Uncaught (in promise) Error: boom\n  throw x\n    at file:///x.ts:1:7";
        let java = "Exception in thread \"main\" a.B: x\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk\n\tat a.B";
        let rust =
            "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment";
        let go = "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:4\nexit status 2";
        let caught = "checker crashed: Error: ENOENT: no such file, mkdir 'a'\n    at x (node:fs:1:1)\n    at node:internal/main:28:49";
        let nested = "TypeError: fetch failed\n    at x (y:1:1) {\n  [cause]: Error: getaddrinfo EAI_AGAIN a.b\n      at z {\n    \
                      code: 'EAI_AGAIN'\n  }\n}";
        let perl =
            "Can't locate Foo.pm in @INC at -e line 1.\nBEGIN failed--compilation aborted at -e line 1.";
        for (text, line) in [
            (node, "Error: EROFS: read-only file system, open 'out.txt'"),
            (coded, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left-pad'"),
            (deno, "error: Uncaught (in promise) Error: boom"),
            (caught, "checker crashed: Error: ENOENT: no such file, mkdir 'a'"),
            (nested, "TypeError: fetch failed"),
            (
                "Fatal: Error: EROFS, open 'a'\n    at x (y:1:1) {\n  code: 'EROFS'\n}",
                "Fatal: Error: EROFS, open 'a'",
            ),
            ("{\n  x\n}", "}"),
            (java, "Caused by: java.io.IOException: disk"),
            (rust, "boom"),
            (go, "panic: boom"),
            (perl, "Can't locate Foo.pm in @INC at -e line 1."),
            ("    at nothing", "at nothing"),
        ] {
            assert_eq!(error_line(text), Some(line), "{text}");
        }
    }

    /// What interpreters wrote to standard error, the line that says why, and where in `scripts/main` it is.
    const RECORDED: [(&str, &str, Option<u32>); 49] = [
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 7, in <module>\n    f()\n  File \"/p/scripts/main\", line 3, in f\n    \
             json.loads(\"x\")\n  File \"/usr/lib/python3/json/decoder.py\", line 355, in raw_decode\n    raise JSONDecodeError(1)\n    ^^^^^^^^^^\n\
             json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            Some(3),
        ),
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 1, in <module>\n    raise e\nValueError: boom\nhint: note here\nand another\n",
            "ValueError: boom",
            Some(1),
        ),
        (
            "  + Exception Group Traceback (most recent call last):\n  |   File \"/p/scripts/main\", line 1, in <module>\n  |     raise ExceptionGroup(\"boom\",[ValueError(1)])\n  \
             | ExceptionGroup: boom (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/p/scripts/main\", line 9, in f\n    \
             | ValueError: 1\n    +------------------------------------\n",
            "ExceptionGroup: boom (1 sub-exception)",
            Some(1),
        ),
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 2, in <module>\n    int(\"x\")\nValueError: invalid literal\n\nThe above exception was the direct cause of the following exception:\n\n\
             Traceback (most recent call last):\n  File \"/p/scripts/main\", line 4, in <module>\n    raise KeyError(\"outer\") from error\nKeyError: 'outer'\n",
            "KeyError: 'outer'",
            Some(4),
        ),
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 2, in <module>\nValueError: a\n\nDuring handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"/p/scripts/main\", line 5, in <module>\nTypeError: b\nsaved the report\nbye\n",
            "TypeError: b",
            Some(5),
        ),
        (
            "  File \"/p/scripts/main\", line 1\n    print(\"a\n          ^\nSyntaxError: unterminated string literal (detected at line 1)\n",
            "SyntaxError: unterminated string literal (detected at line 1)",
            Some(1),
        ),
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 3, in <module>\nRuntimeError: boom\nException ignored in: <_io.TextIOWrapper name='<stdout>'>\n\
             Traceback (most recent call last):\n  File \"/p/scripts/main\", line 8, in close\nBrokenPipeError: [Errno 32] Broken pipe\n",
            "RuntimeError: boom",
            Some(3),
        ),
        (
            "Traceback (most recent call last):\n  File \"/p/scripts/main\", line 2, in <module>\nKeyboardInterrupt\n",
            "KeyboardInterrupt",
            Some(2),
        ),
        (
            "WARNING:root:first try\nTraceback (most recent call last):\n  File \"/p/scripts/main\", line 2, in f\nOSError: busy\nerror: gave up after 3 tries\n",
            "error: gave up after 3 tries",
            Some(2),
        ),
        (
            "/p/scripts/main:1\nthrow new Error(\"boom\")\n^\n\nError: boom\n    at Object.<anonymous> (/p/scripts/main:1:7)\n    at node:internal/main/run_main_module:28:49\n\nNode.js v20.20.2\n",
            "Error: boom",
            Some(1),
        ),
        (
            "node:fs:2380\n    throw e;\n    ^\n\nError: Command failed: git log\nfatal: not a git repository\n    at genericNodeError (node:internal/errors:984:15)\n    at /p/scripts/main:12:3 {\n  status: 128\n}\n\nNode.js v20.20.2\n",
            "fatal: not a git repository",
            Some(12),
        ),
        (
            "/p/scripts/main:3\nthrow outer\n^\n\nError: outer\n    at f (/p/scripts/main:2:9) {\n  [cause]: TypeError: inner\n      at g (/p/scripts/main:8:1)\n}\n\nNode.js v20.20.2\n",
            "Error: outer",
            Some(2),
        ),
        (
            "/p/scripts/main:1\nPromise.any([1])\n^\n\n[AggregateError: All promises were rejected] {\n  [errors]: [\n    Error: a\n        at x (/p/scripts/main:4:1)\n  ]\n}\n\nNode.js v20.20.2\n",
            "[AggregateError: All promises were rejected]",
            Some(4),
        ),
        (
            "/p/scripts/main:2\nthrow \"no luck\"\n^\nno luck\n(Use `node --trace-uncaught ...` to show where the exception was thrown)\n\nNode.js v20.20.2\n",
            "no luck",
            Some(2),
        ),
        (
            "node:internal/process/promises:288\n            triggerUncaughtException(err, true);\n            ^\n\n[UnhandledPromiseRejection: This error originated either by throwing inside of an async function. The promise rejected with the reason \"no\".] {\n  \
             code: 'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v20.20.2\n",
            "[UnhandledPromiseRejection: This error originated either by throwing inside of an async function. The promise rejected with the reason \"no\".]",
            None,
        ),
        (
            "<--- Last few GCs --->\n[1:0x1]  900 ms: Mark-sweep\n<--- JS stacktrace --->\n\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n----- Native stack trace -----\n\n 1: 0xb node::Abort() [node]\n 2: 0xc v8::Utils [node]\n",
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            None,
        ),
        (
            "1 | #!/usr/bin/env bun\n2 | throw new Error(\"boom\")\n              ^\nerror: boom\n      at /p/scripts/main:2:7\n      at loadAndEvaluateModule (1:11)\n\nBun v1.4.5 (Linux x64)\n",
            "error: boom",
            Some(2),
        ),
        (
            "error: Cannot find module \"x\" from \"/p/scripts/main\"\n\nBun v1.4.5 (Linux x64)\n",
            "error: Cannot find module \"x\" from \"/p/scripts/main\"",
            None,
        ),
        (
            "1 | throw Object.assign(new RangeError(\"far\"), {code: 7})\n          ^\nRangeError: far\n code: 7,\n\n      at /p/scripts/main:1:21\n\nBun v1.4.5 (Linux x64)\n",
            "RangeError: far",
            Some(1),
        ),
        (
            "error: Uncaught (in promise) Error: boom\nthrow new Error(\"boom\")\n      ^\n    at file:///p/scripts/main:2:7\n",
            "error: Uncaught (in promise) Error: boom",
            Some(2),
        ),
        (
            "error: Uncaught (in promise) Error: boom\nthrow new Error(\"boom\")\n      ^\n",
            "error: Uncaught (in promise) Error: boom",
            None,
        ),
        (
            "error: JSR package manifest for '@a/b' failed to load.\n    at file:///p/scripts/main:1:8\n",
            "error: JSR package manifest for '@a/b' failed to load.",
            Some(1),
        ),
        (
            "/p/scripts/main:1:in 'f': boom (RuntimeError)\n\tfrom /p/scripts/main:3:in '<main>'\n",
            "/p/scripts/main:1:in 'f': boom (RuntimeError)",
            Some(1),
        ),
        (
            "/p/scripts/main:4:in 'Integer#+': nil can't be coerced into Integer (TypeError)\n\n1 + nil\n    ^^^\n\tfrom /p/scripts/main:4:in '<main>'\n",
            "/p/scripts/main:4:in 'Integer#+': nil can't be coerced into Integer (TypeError)",
            Some(4),
        ),
        (
            "/p/scripts/main:6:in `rescue in f': outer (RuntimeError)\n\tfrom /p/scripts/main:9:in `<main>'\n/p/scripts/main:2:in `g': inner (ArgumentError)\n\tfrom /p/scripts/main:5:in `f'\ncleaned up\n",
            "/p/scripts/main:6:in `rescue in f': outer (RuntimeError)",
            Some(6),
        ),
        (
            "PHP Fatal error:  Uncaught Exception: boom in /p/scripts/main:3\nStack trace:\n#0 /p/scripts/main(7): f()\n#1 {main}\n  thrown in /p/scripts/main on line 3\n",
            "PHP Fatal error:  Uncaught Exception: boom in /p/scripts/main:3",
            Some(3),
        ),
        (
            "PHP Parse error:  syntax error, unexpected end of file in /p/scripts/main on line 5\n",
            "PHP Parse error:  syntax error, unexpected end of file in /p/scripts/main on line 5",
            Some(5),
        ),
        ("Error in f() : boom\nCalls: f\nExecution halted\n", "Error in f() : boom", None),
        (
            "Error in library(nothing_of_that_name_is_there_at_all) : \n  there is no package called 'x'\nExecution halted\n",
            "there is no package called 'x'",
            None,
        ),
        (
            "Error: boom\nIn addition: Warning message:\nNAs introduced by coercion \nExecution halted\n",
            "Error: boom",
            None,
        ),
        ("boom at /p/scripts/main line 3.\n", "boom at /p/scripts/main line 3.", Some(3)),
        (
            "boom at /p/scripts/main line 3.\n\tmain::g(1) called at /p/scripts/main line 6\n\tmain::f() called at /p/scripts/main line 9\n",
            "boom at /p/scripts/main line 3.",
            Some(3),
        ),
        (
            "lua: /p/scripts/main:1: boom\nstack traceback:\n\t[C]: in function 'error'\n\t/p/scripts/main:1: in main chunk\n\t[C]: in ?\n",
            "lua: /p/scripts/main:1: boom",
            Some(1),
        ),
        (
            "panic: boom\n\ngoroutine 1 [running]:\nmain.f(...)\n\t/p/scripts/main:9\nmain.main()\n\t/p/scripts/main:4 +0x1d\nexit status 2\n",
            "panic: boom",
            Some(9),
        ),
        (
            "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.main()\n\t/p/scripts/main:4 +0x1d\n",
            "fatal error: all goroutines are asleep - deadlock!",
            Some(4),
        ),
        ("2026/11/28 03:00:00 boom\nexit status 1\n", "2026/11/28 03:00:00 boom", None),
        (
            "\nthread 'main' (4711) panicked at src/main.rs:2:5:\nboom\nstack backtrace:\n   0: std::panicking\n             at /rustc/x.rs:1:2\n   1: main\nnote: Some details are omitted, run with `RUST_BACKTRACE=full`\n",
            "boom",
            None,
        ),
        (
            "thread 'main' panicked at 'boom', src/main.rs:2:5\nnote: run with `RUST_BACKTRACE=1`\n",
            "thread 'main' panicked at 'boom', src/main.rs:2:5",
            None,
        ),
        (
            "Exception in thread \"main\" java.lang.RuntimeException: boom\n\tat A.main(A.java:3)\nCaused by: java.io.IOException: disk\n\tat A.f(A.java:9)\n\t... 1 more\n",
            "Caused by: java.io.IOException: disk",
            None,
        ),
        (
            "Unhandled exception. System.Exception: boom\n   at Program.Main() in /p/scripts/main:line 3\n",
            "Unhandled exception. System.Exception: boom",
            Some(3),
        ),
        ("** (RuntimeError) boom\n    scripts/main:1: (file)\n", "** (RuntimeError) boom", Some(1)),
        (
            "ERROR: LoadError: boom\nStacktrace:\n [1] error(s::String)\n   @ Base ./error.jl:35\nin expression starting at /p/scripts/main:1\n",
            "ERROR: LoadError: boom",
            Some(1),
        ),
        (
            "/p/scripts/main: line 3: nothing: command not found\ndone\n",
            "/p/scripts/main: line 3: nothing: command not found",
            Some(3),
        ),
        ("boom at /p/scripts/main line 2.\nbye\n", "boom at /p/scripts/main line 2.", Some(2)),
        (
            "Global symbol \"$x\" requires explicit package name at /p/scripts/main line 1.\nExecution of /p/scripts/main aborted due to compilation errors.\n",
            "Global symbol \"$x\" requires explicit package name at /p/scripts/main line 1.",
            Some(1),
        ),
        (
            "Exception in thread Thread-1 (f):\nTraceback (most recent call last):\n  File \"/p/scripts/main\", line 2, in f\nValueError: in thread\ncannot go on\n",
            "cannot go on",
            Some(2),
        ),
        (
            "/p/scripts/main: line 3: nothing: command not found\nError on line 3\n",
            "/p/scripts/main: line 3: nothing: command not found",
            Some(3),
        ),
        ("/p/scripts/main: 3: nothing: not found\n", "/p/scripts/main: 3: nothing: not found", Some(3)),
        (
            "cp: cannot stat 'a': No such file or directory\ncleaning up\n",
            "cp: cannot stat 'a': No such file or directory",
            None,
        ),
    ];

    #[test]
    fn every_family_of_interpreters_says_why_and_where() {
        for (text, line, place) in RECORDED {
            assert_eq!(error_line(text), Some(line), "{text}");
            assert_eq!(error_place(text, "scripts/main", None), place, "{text}");
        }
    }

    #[test]
    fn a_report_far_above_the_end_is_not_why() {
        let report = "Traceback (most recent call last):\n  File \"x\", line 1, in f\nOSError: busy\n";
        let text = format!("{report}{}the end", "tried again\n".repeat(MAX_LINES_BELOW));
        assert_eq!(error_line(&text), Some("the end"));
        assert_eq!(error_line(&format!("10 %\r50 %\r100 %\rboom\n{report}bye\r\n")), Some("OSError: busy"));
        assert_eq!(error_line("10 %\r50 %\rboom\r\n"), Some("boom"));
    }

    #[test]
    fn a_place_is_in_the_script_and_in_no_other_file() {
        for (text, place) in [
            ("error: x\n    at /p/myscripts/main:3", None),
            ("error: x\n    at /p/scripts/main.js:3", None),
            ("error: x\n    at /p/scripts/main3", None),
            ("error: x\n    at /p/scripts/main:0", None),
            ("error: x\n    at /p/scripts/main:99999999999", None),
            ("error: scripts/main: 12 files are wrong", None),
            ("error: scripts/main: 12: x: not found", Some(12)),
        ] {
            assert_eq!(error_place(text, "scripts/main", None), place, "{text}");
        }
    }

    #[test]
    fn a_file_of_the_same_name_in_another_folder_is_not_the_script() {
        let folder = Path::new("/p/my skills/x");
        for (place, expected) in [
            ("/p/my skills/x/scripts/main:3:1", Some(3)),
            ("x (file:///p/my skills/x/scripts/main:3:1)", Some(3)),
            ("./scripts/main:3", Some(3)),
            ("scripts/main:3", Some(3)),
            ("/p/my skills/other/scripts/main:3:1", None),
            ("/p/my skills/x/node_modules/y/scripts/main:3:1", None),
            ("node_modules/y/scripts/main:3", None),
            ("/q/p/my skills/x/scripts/main:3", None),
            ("/p/my skills/x/./../other/./scripts/main:3", None),
        ] {
            let text = format!("error: x\n    at {place}");
            assert_eq!(error_place(&text, "scripts/main", Some(folder)), expected, "{place}");
        }
    }

    #[test]
    fn a_hostile_text_costs_no_more_than_its_last_lines() {
        let started = std::time::Instant::now();
        for line in ["  File \"", "    at ", "x.rb:1:in 'f': x (E)\n", "#0 \n", "^\n", "scripts/main:", "\r"]
        {
            error_place(&line.repeat(1 << 20), "scripts/main", None);
            error_place(&format!("{line}\n").repeat(1 << 18), "scripts/main", None);
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
