//! One part of a message, with its transfer encoding decoded.

use std::path::Path;

use barid::BodyStructure;
use barid::message::{DefectKind, body_structure, part_body};
use barid::vfs::{OpenOptions, OsVfs, Vfs};

use super::ShownMessage;
use super::structure::parts;
use crate::context::Context;
use crate::exit::{NotThere, WithHint};
use crate::output::escape::{Space, write_visible};

/// Writes the part to a file or to standard output.
pub(super) fn show(
    context: &mut Context,
    message: &ShownMessage<'_>,
    number: &str,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    let (root, _) = body_structure(message.bytes);
    let Some(part) = find(&root, number) else {
        return Err(NotThere::error(
            format!("UID {} has no part {number}", message.uid),
            "--structure lists the parts",
        ));
    };
    let (bytes, defects) = part_body(message.bytes, part);
    for defect in defects {
        let text = format!("UID {}: {defect}", message.uid);
        match defect.kind {
            DefectKind::UnknownEncoding => {
                context.warn(&format!("{text}: printed without decoding"))
            }
            _ => context.detail(&text),
        }
    }
    if let Some(path) = output {
        return write_file(path, &bytes);
    }
    if context.width.is_none() {
        context.out.buffer().extend_from_slice(&bytes);
    } else if bytes.contains(&0) {
        return Err(WithHint::error(
            format!("part {number} of UID {} is not text", message.uid),
            "write it to a file with -o FILE",
        ));
    } else {
        write_visible(context.out.buffer(), &bytes, Space::Lines);
    }
    Ok(context.out.settle()?)
}

/// Returns the part with a number as in `--structure`.
pub(super) fn find<'s>(root: &'s BodyStructure, number: &str) -> Option<&'s BodyStructure> {
    let parts = parts(root);
    parts.iter().find(|part| part.number.eq_ignore_ascii_case(number)).map(|part| part.body)
}

/// Writes a file, replacing an existing one.
fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let at = |error| anyhow::Error::new(error).context(path.display().to_string());
    let options = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
    let file = OsVfs.open(path, options).map_err(at)?;
    file.write_all_at(bytes, 0).map_err(at)
}
