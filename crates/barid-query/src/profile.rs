//! Whose reading of the RFC is followed.

/// Names whose behaviour decides where the RFC leaves room or a server leaves the RFC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The RFC's text.
    #[default]
    Rfc,
    /// Dovecot 2.3.
    Dovecot,
    /// UW c-client 2007f.
    CClient,
}
