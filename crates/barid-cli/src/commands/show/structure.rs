//! The parts of a message and their numbers.

use barid::BodyStructure;
use barid::message::{body_structure, file_name, media_type, parameter};

use super::ShownMessage;
use crate::context::Context;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::size;
use crate::output::table::{Align, Table};
use crate::output::tree::{Branches, last_children};

/// A part and its position.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    /// The number as in IMAP (RFC 9051 §6.4.5.1), such as `2.1`; `TEXT` for a multipart that is the
    /// whole message.
    pub(super) number: String,
    /// The depth, 0 for the root.
    pub(super) depth: u32,
    /// The structure of the part.
    pub(super) body: &'a BodyStructure,
}

/// Returns all parts, each after its parent. Does not recurse.
pub(super) fn parts(root: &BodyStructure) -> Vec<Part<'_>> {
    let number = if is_multipart(root) { "TEXT" } else { "1" }.to_owned();
    let mut todo = vec![Part { number, depth: 0, body: root }];
    let mut parts = Vec::new();
    while let Some(part) = todo.pop() {
        let child = |(at, body)| Part {
            number: child_number(&part, at, body),
            depth: part.depth + 1,
            body,
        };
        todo.extend(part.body.parts.iter().enumerate().map(child).rev());
        parts.push(part);
    }
    parts
}

fn child_number(parent: &Part<'_>, at: usize, body: &BodyStructure) -> String {
    if !is_multipart(parent.body) && is_multipart(body) {
        return format!("{}.TEXT", parent.number);
    }
    let parent = parent.number.strip_suffix("TEXT").unwrap_or(&parent.number);
    let parent = parent.strip_suffix('.').unwrap_or(parent);
    if parent.is_empty() { (at + 1).to_string() } else { format!("{parent}.{}", at + 1) }
}

fn is_multipart(body: &BodyStructure) -> bool {
    body.media_type.eq_ignore_ascii_case(b"multipart")
}

/// Returns `true` if `lines` is meaningful for a part.
fn has_lines(body: &BodyStructure) -> bool {
    body.media_type.eq_ignore_ascii_case(b"text") || body.envelope.is_some()
}

/// Writes the line of JSON.
pub(super) fn write_json(out: &mut Vec<u8>, message: &ShownMessage<'_>) {
    let (read, _) = body_structure(message.bytes);
    let root = message.whole.unwrap_or(&read);
    let mut json = Json::line(out, "structure");
    message.write_keys(&mut json);
    json.key("parts").open(b'[');
    for part in parts(root) {
        write_part(&mut json, &part);
    }
    json.close(b']');
    json.end_line();
}

fn write_part(json: &mut Json<'_>, part: &Part<'_>) {
    let body = part.body;
    let text = |json: &mut Json<'_>, key: &str, text: Option<&str>| match text {
        Some(text) => json.key(key).str(text),
        None => json.key(key).null(),
    };
    json.open(b'{');
    json.key("part").str(&part.number);
    json.key("depth").number(part.depth.into());
    json.key("type").str(&media_type(body));
    text(json, "charset", parameter(&body.parameters, "charset").as_deref());
    text(json, "filename", file_name(body).as_deref());
    match &body.disposition {
        Some(disposition) => json.key("disposition").bytes(&disposition.kind.to_ascii_lowercase()),
        None => json.key("disposition").null(),
    }
    json.key("encoding").bytes(&body.encoding.to_ascii_lowercase());
    json.key("size").number(body.size);
    if has_lines(body) {
        json.key("lines").number(body.lines);
    }
    json.close(b'}');
}

/// Writes a tree, a line for each part.
pub(super) fn write_tree(
    context: &mut Context,
    message: &ShownMessage<'_>,
    follows: bool,
) -> anyhow::Result<()> {
    let (read, defects) = body_structure(message.bytes);
    let parts = parts(message.whole.unwrap_or(&read));
    let depths: Vec<u32> = parts.iter().map(|part| part.depth).collect();
    let mut branches = Branches::new(context.glyphs());
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Left]);
    for (part, last) in parts.iter().zip(last_children(&depths)) {
        let mut tree = Vec::new();
        branches.write(&mut tree, part.depth, last);
        let tree = String::from_utf8(tree).expect("because branches are UTF-8");
        let name = file_name(part.body).map(|name| visible(name.as_bytes())).unwrap_or_default();
        let kind = visible(media_type(part.body).as_bytes());
        table.row([format!("{tree}{}", part.number), kind, size(part.body.size), name]);
    }
    message.write_gap(context.out.buffer(), context.style, follows);
    table.write(context.out.buffer(), "");
    for defect in defects {
        context.detail(&format!("UID {}: {defect}", message.uid));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(media_type: &str, parts: Vec<BodyStructure>) -> BodyStructure {
        let (kind, subtype) = media_type.split_once('/').unwrap();
        BodyStructure {
            media_type: kind.as_bytes().to_vec(),
            subtype: subtype.as_bytes().to_vec(),
            parts,
            ..BodyStructure::default()
        }
    }

    fn check(root: &BodyStructure, expected: &[&str]) {
        let found: Vec<_> = parts(root)
            .iter()
            .map(|part| format!("{} {} {}", part.depth, part.number, media_type(part.body)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_are_those_of_imap() {
        check(&part("TEXT/Plain", vec![]), &["0 1 text/plain"]);
        let leaf = || part("text/plain", vec![]);
        let alternative = || part("multipart/alternative", vec![leaf(), leaf()]);
        let forward = part("message/rfc822", vec![alternative()]);
        let single = part("message/rfc822", vec![leaf()]);
        let root = part("multipart/mixed", vec![alternative(), forward, single]);
        check(
            &root,
            &[
                "0 TEXT multipart/mixed",
                "1 1 multipart/alternative",
                "2 1.1 text/plain",
                "2 1.2 text/plain",
                "1 2 message/rfc822",
                "2 2.TEXT multipart/alternative",
                "3 2.1 text/plain",
                "3 2.2 text/plain",
                "1 3 message/rfc822",
                "2 3.1 text/plain",
            ],
        );
    }
}
