//! A fast path for plain words, which make up most of a message.
//!
//! It gives the same tokens as the rules of `scan` as long as the text has only words and bytes
//! without meaning, all of them in lines that were read already.

use super::classes::{self, BLANK, FRONT, IDLE, IDLE_HTML, IDLE_TAG, IDLE_TEXT};
use super::scan::{Scan, ScanState};
use super::{Delivery, is_text};

impl Delivery<'_> {
    /// Delivers words up to the first byte that needs the rules of `scan`.
    pub(super) fn simple_words(&mut self, scan: &mut Scan<'_>) {
        let options = scan.options;
        let is_simple = options.multi_token_count < 2 && !options.replace_non_ascii;
        let (is_modern, is_paired) = (scan.is_modern(), scan.is_paired());
        if !is_simple || self.is_address {
            return;
        }
        let Some(idle) = idle(scan) else { return };
        let (is_header, is_html) = (scan.state == ScanState::Header, scan.state == ScanState::Html);
        let prefix = scan.tag.map_or(&b""[..], super::Tag::prefix);
        let len_max = if is_kept(scan) {
            options.token_len_bound().saturating_sub(if is_modern { 0 } else { prefix.len() })
        } else {
            0
        };
        let lens = options.token_len_min..=len_max;
        let text = scan.text.rest();
        let mut at = 0;
        while let Some(&first) = text.get(at) {
            if !classes::is(first, FRONT) {
                if !classes::is(first, idle) {
                    let is_blank = is_header && classes::is(first, BLANK);
                    if !is_blank || may_be_id(text.get(at + 1)) {
                        break;
                    }
                }
                at += 1;
                continue;
            }
            let (run, len) = classes::word(&text[at..]);
            match text.get(at + run) {
                None => break,
                Some(b'=' | b'#') if is_header => break,
                Some(b'<' | b'&') if is_html => break,
                Some(_) => {}
            }
            let is_special = |word: &[u8]| {
                scan.text.is_after(at, b"://") || word.iter().any(|byte| *byte >= 0xE3)
            };
            if is_modern && is_special(&text[at..at + len]) {
                break;
            }
            if lens.contains(&len) {
                let word = &text[at..at + len];
                if is_paired {
                    self.paired_word(prefix, scan.tag, word);
                } else if prefix.is_empty() {
                    (self.each)(word);
                } else {
                    self.full.clear();
                    self.full.extend_from_slice(prefix);
                    self.full.extend_from_slice(word);
                    (self.each)(self.full);
                }
                if is_modern && !is_paired {
                    self.more(scan.tag, word);
                }
            }
            // What is left of the run begins no word and no rule.
            at += run;
        }
        if at > 0 {
            scan.take(at);
        }
    }
}

/// Returns the class of bytes without meaning in the scanner's state; `None` where the fast path
/// does not apply.
fn idle(scan: &Scan<'_>) -> Option<u16> {
    match scan.state {
        ScanState::Header if scan.at_line_start => None,
        ScanState::Header => Some(IDLE),
        ScanState::StrictComment => None,
        _ if scan.at_line_start && scan.text.get(0) == Some(b'-') => None,
        ScanState::Text | ScanState::PgpHead | ScanState::PgpBody => Some(IDLE_TEXT),
        ScanState::Html => Some(IDLE_HTML),
        ScanState::Tag | ScanState::OtherTag | ScanState::LooseComment => Some(IDLE_TAG),
    }
}

/// Returns `true` if words are tokens in the scanner's state.
fn is_kept(scan: &Scan<'_>) -> bool {
    is_text(scan)
        && matches!(
            scan.state,
            ScanState::Header | ScanState::Text | ScanState::Html | ScanState::Tag
        )
        || scan.state == ScanState::PgpHead && is_text(scan)
}

/// Returns `true` if a queue id may follow a blank in a header: `next`, the byte after the blank,
/// begins `id`, or is in a line that was not read yet.
fn may_be_id(next: Option<&u8>) -> bool {
    matches!(next, None | Some(b'i' | b'I'))
}
