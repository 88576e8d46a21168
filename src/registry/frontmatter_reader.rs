//! Reads the frontmatter of a `SKILL.md` in small chunks: never the body, never more than the frontmatter may take.

use std::io::{self, Read};

use metier_skill::{FrontmatterLen, MAX_FRONTMATTER, MAX_UNTITLED_HEAD, frontmatter_len};

/// Bytes of the first chunk, which holds most frontmatter; each further chunk doubles what was read.
const INITIAL_CHUNK: usize = MAX_UNTITLED_HEAD;

/// The frontmatter at the beginning of a file; of a file without any, the beginning that describes the skill.
pub(super) fn read_frontmatter(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; INITIAL_CHUNK];
    let mut filled = 0;
    loop {
        let read = match file.read(&mut head[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        let length = match frontmatter_len(&head[..filled]) {
            FrontmatterLen::Complete(length) => length,
            FrontmatterLen::NeedMore if read > 0 && filled <= MAX_FRONTMATTER => {
                if filled == head.len() {
                    head.resize(2 * filled, 0);
                }
                continue;
            }
            FrontmatterLen::NoFrontmatter if read > 0 && filled < INITIAL_CHUNK => continue,
            FrontmatterLen::NeedMore => filled,
            FrontmatterLen::NoFrontmatter | FrontmatterLen::TooLarge => complete_chars(&head[..filled]),
        };
        head.truncate(length);
        return Ok(head);
    }
}

/// A chunk may end within a character, which is not an error in the file.
fn complete_chars(head: &[u8]) -> usize {
    match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => head.len(),
    }
}
