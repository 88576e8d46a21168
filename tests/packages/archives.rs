//! Wheels, source distributions and archives of npm, written byte by byte and without compression.

use base64::Engine;
use sha2::{Digest, Sha256, Sha512};

/// A wheel with these files and what a wheel must have.
pub fn wheel(name: &str, version: &str, requires: &[&str], files: &[(&str, &str)]) -> Vec<u8> {
    let info = format!("{name}-{version}.dist-info");
    let requires: Vec<String> =
        requires.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
    let requires = requires.concat();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
    let about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let mut all: Vec<(String, String)> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    all.push((format!("{info}/METADATA"), metadata));
    all.push((format!("{info}/WHEEL"), about.to_owned()));
    let mut record: Vec<String> = all.iter().map(|(path, _)| format!("{path},,\n")).collect();
    record.push(format!("{info}/RECORD,,\n"));
    all.push((format!("{info}/RECORD"), record.concat()));
    zip(&all)
}

/// A source distribution whose build would run this code.
pub fn sdist(name: &str, version: &str, setup: &str) -> Vec<u8> {
    let folder = format!("{name}-{version}");
    let info = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let project = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
    gzip(&tar(&[
        (format!("{folder}/setup.py"), setup.to_owned()),
        (format!("{folder}/backend.py"), setup.to_owned()),
        (format!("{folder}/pyproject.toml"), project.to_owned()),
        (format!("{folder}/PKG-INFO"), info),
    ]))
}

/// An archive of npm.
pub fn npm_archive(files: &[(&str, &str)]) -> Vec<u8> {
    let files: Vec<(String, String)> =
        files.iter().map(|(path, text)| (format!("package/{path}"), (*text).to_owned())).collect();
    gzip(&tar(&files))
}

pub fn sha256(bytes: &[u8]) -> String {
    let digits: Vec<String> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// As npm writes it.
pub fn integrity(bytes: &[u8]) -> String {
    format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes)))
}

fn zip(files: &[(String, String)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let (offset, size) = (number(out.len()), number(text.len()));
        let mut common = Vec::new();
        // Version, flags, no compression, a time and a date.
        for value in [20_u16, 0, 0, 0, 0x21] {
            common.extend(value.to_le_bytes());
        }
        for value in [crc32(text.as_bytes()), size, size] {
            common.extend(value.to_le_bytes());
        }
        common.extend(u16::try_from(path.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(path.as_bytes());
        out.extend(text.as_bytes());
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        // Comment, disk, internal attributes; the mode of a file that anybody may read.
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(path.as_bytes());
    }
    let (start, length) = (number(out.len()), number(directory.len()));
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count);
    out.extend(count);
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn tar(files: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, text) in files {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, path.as_bytes());
        put(100, b"0000644\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", text.len()).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(header);
        out.extend(text.as_bytes());
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.extend([0; 1024]);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> = bytes.chunks(60_000).collect();
    for (index, block) in blocks.iter().enumerate() {
        out.push(u8::from(index + 1 == blocks.len()));
        let length = u16::try_from(block.len()).unwrap();
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(*block);
    }
    out.extend(crc32(bytes).to_le_bytes());
    out.extend(number(bytes.len()).to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap()
}
