//! Where no single keys can be read, nobody is asked.

/// What was pressed.
#[allow(dead_code, reason = "nothing reads keys here")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Interrupt,
    End,
    Other,
}

/// The keys of a terminal.
pub struct Keyboard(());

impl Keyboard {
    /// Nothing, always.
    pub fn open() -> Option<Self> {
        None
    }

    /// Drops what was typed until now.
    pub fn flush(&self) {
        let Self(()) = self;
    }

    /// Nothing, always.
    pub fn read(&self, _: &dyn Fn() -> bool) -> Option<Key> {
        let Self(()) = self;
        None
    }
}

/// There is nothing to give back.
pub fn restore_terminal() {}

/// Whether questions can be asked.
pub fn is_terminal() -> bool {
    false
}

/// Unknown.
pub fn terminal_size() -> Option<(usize, usize)> {
    None
}

/// Unknown, so no limit.
pub fn output_columns() -> usize {
    usize::MAX
}
