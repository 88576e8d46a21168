//! The line of a script's output that says why it failed.
//!
//! Most programs say it last. Some interpreters go on with a stack, the fields of the error or their version; then the line is
//! the last one before them that looks like an error.

/// The line that says why the script failed, trimmed; `None` if the text is blank.
pub(super) fn error_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().rev().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let last = lines.next()?;
    let line = if is_stack_frame(last) || last.starts_with("Node.js v") || last == "}" {
        // Whoever printed the error may have written more before it.
        let mut from_stack =
            std::iter::once(last).chain(lines.clone()).skip_while(|line| !is_stack_frame(line));
        let above_stack = from_stack.find(|line| !is_stack_frame(line));
        lines.find(|line| is_error_title(line)).or(above_stack)
    } else if last.starts_with("note: run with `RUST_BACKTRACE") {
        // The message stands below the line that names the thread.
        let message = lines.take_while(|line| !line.starts_with("thread '"));
        message.last()
    } else if last.starts_with("BEGIN failed--") {
        lines.next()
    } else if last.starts_with("exit status ") {
        lines.find(|line| ["panic: ", "fatal error: "].iter().any(|start| line.starts_with(start)))
    } else {
        None
    };
    Some(line.unwrap_or(last).trim())
}

/// Whether a line is a frame of a stack, as Java, Node and Deno write it.
fn is_stack_frame(line: &str) -> bool {
    line.starts_with([' ', '\t']) && line.trim_start().starts_with("at ")
}

/// Whether a line begins like an error: `TypeError: …`, `Error [CODE]: …`, `java.io.IOException: …`, `Caused by: …`.
fn is_error_title(line: &str) -> bool {
    const STARTS: [&str; 4] = ["Caused by: ", "Exception in thread ", "Uncaught ", "error: "];
    let name = line.split(':').next().unwrap_or_default();
    let name = name.split(" [").next().unwrap_or_default();
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c));
    STARTS.iter().any(|start| line.starts_with(start))
        || is_name && ["Error", "Exception"].iter().any(|end| name.ends_with(end))
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
}
