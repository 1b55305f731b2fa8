//! Header fields, decoded.

use barid::message::{decode_words, fields};

use super::ShownMessage;
use crate::context::Context;
use crate::output::escape::{Space, write_visible, write_visible_str};
use crate::output::json::Json;
use crate::output::style::Style;

/// The fields for reading, in display order.
const USUAL: [&str; 6] = ["From", "To", "Cc", "Reply-To", "Date", "Subject"];

/// Writes all fields.
pub(super) fn write_all(context: &mut Context, message: &ShownMessage<'_>, follows: bool) {
    let style = context.style;
    let out = context.out.buffer();
    message.write_gap(out, style, follows);
    for field in fields(message.bytes) {
        write_field(out, style, field.name, field.body);
    }
}

/// Writes the first of each usual field, if present.
pub(super) fn write_usual(out: &mut Vec<u8>, style: Style, message: &ShownMessage<'_>) {
    let mut found = [None; USUAL.len()];
    for field in fields(message.bytes) {
        let named = |name: &&str| field.name.eq_ignore_ascii_case(name.as_bytes());
        if let Some(at) = USUAL.iter().position(named) {
            found[at].get_or_insert(field.body);
        }
    }
    for (name, body) in USUAL.into_iter().zip(found) {
        if let Some(body) = body {
            write_field(out, style, name.as_bytes(), body);
        }
    }
}

/// Writes `headers`.
pub(super) fn write_json(json: &mut Json<'_>, message: &ShownMessage<'_>) {
    json.key("headers").open(b'[');
    for field in fields(message.bytes) {
        json.open(b'{');
        json.key("name").bytes(field.name);
        json.key("value").str(&decode_words(field.body));
        json.close(b'}');
    }
    json.close(b']');
}

fn write_field(out: &mut Vec<u8>, style: Style, name: &[u8], body: &[u8]) {
    out.extend_from_slice(style.cyan.as_bytes());
    write_visible(out, name, Space::OneLine);
    if !name.is_empty() {
        out.extend_from_slice(b": ");
    }
    out.extend_from_slice(style.reset.as_bytes());
    write_visible_str(out, &decode_words(body), Space::OneLine);
    out.push(b'\n');
}
