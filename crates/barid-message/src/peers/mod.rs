//! Emulation of Dovecot 2.3 and c-client 2007f where their reading of mail differs from the RFCs.
//!
//! The code follows their behaviour, for tests against them and for bridges to them; every
//! difference is listed in `docs/deviations.md`.

pub(crate) mod c_client;
mod c_client_date;
pub(crate) mod c_client_ids;
pub(crate) mod dovecot;

use barid_types::SentDate;

use crate::casemap::casemap_into;
use crate::{Profile, parse_date};

/// Returns [`crate::casemap()`] by the rules of another program.
///
/// Dovecot takes the first step of a decomposition only; c-client follows the RFC.
pub fn casemap_as(text: &str, profile: Profile) -> String {
    let mut key = String::with_capacity(text.len());
    match profile {
        Profile::Dovecot => dovecot::casemap_one_step(text, &mut key),
        Profile::Rfc | Profile::CClient => casemap_into(text, &mut key),
    }
    key
}

/// Returns [`parse_date`] by the rules of another program.
pub fn parse_date_as(raw: &[u8], profile: Profile) -> Option<SentDate> {
    match profile {
        Profile::Rfc => parse_date(raw),
        Profile::Dovecot => dovecot::date(raw),
        Profile::CClient => c_client_date::date(raw),
    }
}
