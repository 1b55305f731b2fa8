//! Emulation of Dovecot 2.3 and c-client 2007f where their reading of mail differs from the RFCs.
//!
//! The code follows their behaviour, for tests against them and for bridges to them; every
//! difference is listed in `docs/deviations.md`.

pub(crate) mod c_client;
pub(crate) mod c_client_date;
pub(crate) mod c_client_ids;
pub(crate) mod dovecot;
