//! The skills inside the binary, so that they run from anywhere.

/// A skill whose files are part of the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Shipped {
    /// The name of its folder.
    pub name: &'static str,
    /// Its files: path below the folder, `/`-separated, and bytes; sorted by path.
    pub files: &'static [(&'static str, &'static [u8])],
}

impl Shipped {
    /// The bytes of a file, where there is one at that path.
    pub fn file(&self, path: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(known, _)| *known == path).map(|(_, bytes)| *bytes)
    }
}

/// Each row names a folder of `skills/` and the files of it that ship; the cases beside them do not.
macro_rules! shipped {
    ($($name:literal: $($file:literal),+;)*) => {
        /// Every skill inside the binary, by name.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            files: &[$(($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/skills/", $name, "/", $file)))),+],
        }),*];
    };
}

shipped! {}
