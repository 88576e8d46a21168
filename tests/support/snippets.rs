//! The fenced blocks of a Markdown text.

/// One fenced block.
pub struct Snippet {
    /// The first word after the fence.
    pub language: String,
    /// The second: the file that the block is.
    pub path: Option<String>,
    /// The line of the fence, from 1.
    pub line: usize,
    /// What stands inside, with its last newline.
    pub text: String,
}

/// The blocks in their order.
pub fn snippets(markdown: &str) -> Vec<Snippet> {
    let mut found = Vec::new();
    let mut open: Option<Snippet> = None;
    for (line, text) in (1..).zip(markdown.lines()) {
        match (text.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => open = Some(Snippet::opened(info, line)),
            (None, Some(snippet)) => snippet.text.extend([text, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block is never closed");
    found
}

impl Snippet {
    fn opened(info: &str, line: usize) -> Self {
        let mut words = info.split_whitespace().map(str::to_owned);
        Self { language: words.next().unwrap_or_default(), path: words.next(), line, text: String::new() }
    }

    /// The commands of a `console` block, each with the output that follows it.
    pub fn commands(&self) -> Vec<(&str, String)> {
        let mut commands: Vec<(&str, String)> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command, String::new())),
                (None, Some((_, output))) => output.extend([line, "\n"]),
                (None, None) => panic!("line {}: output before any command", self.line),
            }
        }
        commands
    }
}
