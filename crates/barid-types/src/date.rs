//! Points in time as mail knows them: seconds since 1970 and the writer's zone.

/// When a message arrived (RFC 9051 §2.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InternalDate {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: i64,
    /// Minutes east of UTC; the instant does not depend on it.
    pub zone_minutes: i16,
}

/// When a message was sent, as its `Date` field says (RFC 5256 §2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentDate {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: i64,
    /// Minutes east of UTC; the instant does not depend on it.
    pub zone_minutes: i16,
}
