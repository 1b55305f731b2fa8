//! The program whose reading of the RFCs applies where programs differ.

/// A set of rules for reading subjects, message ids, dates and addresses.
///
/// The differences are listed in `docs/deviations.md`. [`Profile::Rfc`] is the default; the other
/// two exist for tests against those programs and for bridges to them.
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
