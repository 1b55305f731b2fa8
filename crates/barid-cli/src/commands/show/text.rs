//! A message for reading: the usual fields, its text, and a list of attachments.

use barid::message::{attachments, body_structure, readable_text_of};

use super::{ShownMessage, headers};
use crate::context::Context;
use crate::output::escape::{Space, visible, write_visible_str};
use crate::output::json::Json;
use crate::output::number::size;

/// Writes the message.
pub(super) fn write(context: &mut Context, message: &ShownMessage<'_>, follows: bool) {
    let style = context.style;
    let (root, defects) = body_structure(message.bytes);
    let out = context.out.buffer();
    message.write_rule(out, style, follows);
    headers::write_usual(out, style, message);
    let text = readable_text_of(message.bytes, &root);
    if !text.is_empty() {
        out.push(b'\n');
        write_visible_str(out, &text, Space::Lines);
        if out.last() != Some(&b'\n') {
            out.push(b'\n');
        }
    }
    for (at, part) in attachments(message.whole.unwrap_or(&root)).iter().enumerate() {
        if at == 0 {
            out.push(b'\n');
        }
        let name = part.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let line = format!("[{}: {}{name}, {}]", part.number, part.media_type, size(part.size));
        let line = format!("{}{}{}\n", style.cyan, visible(line.as_bytes()), style.reset);
        out.extend_from_slice(line.as_bytes());
    }
    for defect in defects {
        context.detail(&format!("UID {}: {defect}", message.uid));
    }
}

/// Writes the line of JSON, with the text and the attachments unless only headers are wanted.
pub(super) fn write_json(context: &mut Context, message: &ShownMessage<'_>, headers_only: bool) {
    let mut json = Json::line(context.out.buffer(), "show");
    message.write_keys(&mut json);
    headers::write_json(&mut json, message);
    if !headers_only {
        let (root, _) = body_structure(message.bytes);
        json.key("text").str(&readable_text_of(message.bytes, &root));
        json.key("attachments").open(b'[');
        for part in attachments(message.whole.unwrap_or(&root)) {
            json.open(b'{');
            json.key("part").str(&part.number);
            json.key("type").str(&part.media_type);
            match &part.name {
                Some(name) => json.key("filename").str(name),
                None => json.key("filename").null(),
            }
            json.key("size").number(part.size);
            json.close(b'}');
        }
        json.close(b']');
    }
    json.end_line();
}
