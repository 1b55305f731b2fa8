//! Previews of messages (RFC 8970): only the beginning of a message is read, up to its first text.

use barid_mailbox::ReadAs;
use barid_message::preview;

use crate::limits::PREVIEW_START_LENS;
use crate::{Result, View};

/// Returns the beginning of the text of the message of a row. It depends on the message alone, not
/// on what else was read of it.
pub(super) fn row_preview(view: &View, row: u32) -> Result<String> {
    let (mut start, mut found) = (Vec::new(), None);
    let mut lens = PREVIEW_START_LENS.into_iter();
    let mut len = lens.next();
    view.row_pieces(row, ReadAs::Message, &mut |piece| {
        start.extend_from_slice(piece);
        // The message may be longer.
        while let Some(wanted) = len.filter(|wanted| start.len() > *wanted) {
            found = preview(&start[..wanted], false);
            len = if found.is_some() { None } else { lens.next() };
        }
        len.is_some()
    })?;
    if found.is_none() {
        let [.., last] = PREVIEW_START_LENS;
        start.truncate(last);
        found = preview(&start, true);
    }
    Ok(found.unwrap_or_default())
}

/// Returns the same for a message that is in memory.
pub(super) fn text_preview(text: &[u8]) -> String {
    let [.., last] = PREVIEW_START_LENS;
    let cuts = PREVIEW_START_LENS.into_iter().filter(|len| text.len() > *len);
    let of_cut = cuts.filter_map(|len| preview(&text[..len], false)).next();
    of_cut.or_else(|| preview(&text[..text.len().min(last)], true)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::fetch::{FetchItems, Fetched};
    use crate::{View, test_mailbox};

    fn previews(view: &View, items: &str) -> Vec<String> {
        let uids = view.uids_in(&[(1, u32::MAX)], false).unwrap();
        let mut out = Vec::new();
        let write = |fetched: &Fetched<'_>, out: &mut Vec<u8>| fetched.write_imap(out);
        let items = FetchItems::parse(items).unwrap();
        let mut take = |bytes: &mut Vec<u8>| {
            out.extend_from_slice(bytes);
            true
        };
        let report = view.fetch(&uids, &items, &write, &mut take).unwrap();
        assert!(report.unreadable.is_empty() && report.gone.is_empty());
        let text = String::from_utf8(out).unwrap();
        text.lines().filter(|line| line.contains("PREVIEW")).map(str::to_owned).collect()
    }

    #[test]
    fn a_lazy_preview_of_many_messages_is_left_out() {
        let (few, _) = test_mailbox::maildir(50);
        let (many, _) = test_mailbox::maildir(101);
        let all = previews(&many.view(), "(PREVIEW)");
        assert_eq!(all.len(), 101);
        assert!(all.iter().all(|line| line.contains("(PREVIEW \"")), "{all:?}");
        let lazy = previews(&many.view(), "(PREVIEW (LAZY))");
        assert!(lazy.iter().all(|line| line.ends_with("(PREVIEW NIL)")), "{lazy:?}");
        let lazy = previews(&few.view(), "(UID PREVIEW (LAZY))");
        assert_eq!(lazy, previews(&few.view(), "(UID PREVIEW)"));
    }
}
