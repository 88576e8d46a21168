//! Reads single keys from a terminal.
//!
//! The crate `console` reads them too, but a process that ends while it waits leaves the terminal without echo, and what waits for
//! a key cannot be stopped.

use std::io::{IsTerminal, Stdin};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetwinsize,
    tcsetattr,
};

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable ASCII character, alone.
    Char(char),
    Enter,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal is gone.
    End,
    /// Anything else, such as an arrow key or pasted text.
    Other,
}

/// The settings of the terminal before the question that stands now.
static SAVED_SETTINGS: Mutex<Option<Termios>> = Mutex::new(None);

/// How often it is looked whether the question was withdrawn.
const STOP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The keys of the terminal at standard input, without echo and line by line, until it is dropped.
pub struct Keyboard(Stdin);

impl Keyboard {
    /// Nothing if the settings of the terminal cannot be changed. What was typed before is dropped.
    pub fn open() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        let mut settings = before.clone();
        settings
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        settings.special_codes[SpecialCodeIndex::VMIN] = 1;
        settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mut saved = saved_settings();
        // Also drops what was typed so far.
        tcsetattr(&stdin, OptionalActions::Flush, &settings).ok()?;
        *saved = Some(before);
        Some(Self(stdin))
    }

    /// Drops what was typed until now.
    pub fn flush(&self) {
        tcflush(&self.0, QueueSelector::IFlush).ok();
    }

    /// The next key; nothing when the question is withdrawn.
    pub fn read(&self, is_withdrawn: &dyn Fn() -> bool) -> Option<Key> {
        loop {
            if is_withdrawn() {
                return None;
            }
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut polled, Some(&STOP_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Some(read_key(&self.0)),
                Err(_) => return Some(Key::End),
            }
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Gives the terminal back its settings if a question stands, as a process must before it ends.
pub fn restore_terminal() {
    if let Some(settings) = saved_settings().take() {
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &settings).ok();
    }
}

/// Whether standard input and standard error are terminals.
pub fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The rows and columns of the terminal.
pub fn terminal_size() -> Option<(usize, usize)> {
    tcgetwinsize(std::io::stderr()).ok().map(|size| (size.ws_row.into(), size.ws_col.into()))
}

/// The columns of the terminal at standard output; no limit if it is none.
pub fn output_columns() -> usize {
    let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col.into());
    if columns == 0 { usize::MAX } else { columns }
}

fn saved_settings() -> std::sync::MutexGuard<'static, Option<Termios>> {
    SAVED_SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_key(stdin: &Stdin) -> Key {
    let mut bytes = [0; 256];
    match rustix::io::read(stdin, &mut bytes) {
        Ok(count) => key(&bytes[..count]),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Key::Other,
        Err(_) => Key::End,
    }
}

/// What these bytes mean that arrived together: one key, or something longer that is not an answer.
fn key(bytes: &[u8]) -> Key {
    match bytes {
        [] | [4] => Key::End,
        [b'\r' | b'\n'] => Key::Enter,
        bytes if bytes.contains(&3) => Key::Interrupt,
        [byte] if byte.is_ascii_graphic() => Key::Char(char::from(*byte)),
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_alone_is_an_answer() {
        for (bytes, expected) in [
            (&b""[..], Key::End),
            (b"\x04", Key::End),
            (b"\r", Key::Enter),
            (b"\n", Key::Enter),
            (b"y", Key::Char('y')),
            (b"\x03", Key::Interrupt),
            (b"y\x03", Key::Interrupt),
            (b"yes\n", Key::Other),
            (b"y\n", Key::Other),
            (b"\x1b[A", Key::Other),
            (b"\x1by", Key::Other),
            (b" ", Key::Other),
            ("ｙ".as_bytes(), Key::Other),
            (b"\xff", Key::Other),
        ] {
            assert_eq!(key(bytes), expected, "{bytes:?}");
        }
    }
}
