//! Points in time as mail knows them: seconds since 1970 and the writer's zone.

/// The arrival time of a message (RFC 9051 §2.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InternalDate {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: i64,
    /// Minutes east of UTC; the instant does not depend on it.
    pub zone_minutes: i16,
}

/// The time at which a message was sent, from its `Date` field (RFC 5256 §2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentDate {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix_seconds: i64,
    /// Minutes east of UTC; the instant does not depend on it.
    pub zone_minutes: i16,
}
