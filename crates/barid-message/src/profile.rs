//! Whose reading of the RFCs is followed where programs differ.

/// A way of reading subjects, message ids, dates and addresses.
///
/// The differences are listed in `docs/deviations.md`; [`Profile::Rfc`] is what users get, the
/// other two exist for tests against those programs and for bridges to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// RFC 5256, RFC 5322 and RFC 2047 as written, and lenient where they are silent.
    #[default]
    Rfc,
    /// Dovecot 2.3.
    Dovecot,
    /// The c-client library of UW IMAP 2007f.
    CClient,
}
