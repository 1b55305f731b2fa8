//! How Dovecot 2.3 and c-client 2007f read subjects and message ids where they leave the RFCs.
//!
//! For tests against those programs; see `docs/deviations.md`.

use std::ops::Range;

/// Dovecot's canonical form: every encoded word by itself, what is not UTF-8 as U+FFFD.
pub(crate) fn dovecot_casemapped(raw: &[u8], text: &mut Vec<u8>) {
    let decoded = crate::decode_words(raw);
    crate::subject::pack_white_space(crate::casemap(&decoded).as_bytes(), text);
}

/// c-client's base subject; see `mail_strip_subject`.
pub(crate) fn c_client_base_subject(raw: &[u8], text: &mut Vec<u8>) -> (Range<usize>, bool) {
    let base = crate::base_subject(raw, crate::Profile::Rfc);
    *text = base.text;
    (0..text.len(), base.is_reply_or_forward)
}

/// c-client's message id of a `Message-ID` or `In-Reply-To` field.
pub(crate) fn c_client_first_id(raw: &[u8]) -> Option<Vec<u8>> {
    crate::message_id(raw, crate::Profile::Dovecot).map(std::borrow::Cow::into_owned)
}

/// c-client's message ids of a `References` field.
pub(crate) fn c_client_ids(raw: &[u8], visit: &mut dyn FnMut(&[u8])) {
    crate::message_ids(raw, crate::Profile::Dovecot, visit);
}
