//! The types of files by their extensions.

/// The type of a file, as far as a client shows it differently.
pub(super) fn mime_type(path: &str) -> &'static str {
    const TYPES: [(&str, &str); 20] = [
        ("md", "text/markdown"),
        ("json", "application/json"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("html", "text/html"),
        ("csv", "text/csv"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("svg", "image/svg+xml"),
        ("wav", "audio/wav"),
        ("mp3", "audio/mpeg"),
        ("ogg", "audio/ogg"),
        ("flac", "audio/flac"),
        ("m4a", "audio/mp4"),
        ("pdf", "application/pdf"),
        ("wasm", "application/wasm"),
        ("zip", "application/zip"),
    ];
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map_or("text/plain", |(_, kind)| kind)
}
