//! `attachments`: files of the skill that its prompt has with it.

use super::resources::read_file_path;
use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::Node;

/// The most files of one prompt.
const MAX_ATTACHMENTS: usize = 16;

/// The paths in the skill's folder, in written order.
pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let items = node.and_then(|node| fields::items(node, "attachments", report)).unwrap_or_default();
    if let Some(extra) = items.get(MAX_ATTACHMENTS) {
        let message = format!("the skill attaches {} files, and may attach {MAX_ATTACHMENTS}", items.len());
        report
            .add(&lint::RESOURCE_INVALID, &extra.span, message)
            .help("name further files in the text of the skill");
        return Vec::new();
    }
    let mut paths: Vec<String> = Vec::new();
    for item in items {
        let Some(path) = read_file_path(item, "an attachment", report) else { continue };
        if paths.contains(&path) {
            let message = format!("`{path}` is attached twice");
            report.add(&lint::RESOURCE_INVALID, &item.span, message).help("remove one of the two");
        }
        paths.push(path);
    }
    paths
}
