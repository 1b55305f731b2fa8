//! Reasons why an attachment has no text.

/// The reason why the text of an attachment could not be read.
///
/// A helper reports it by its name on standard error, so that a parent of another version
/// understands it or reports [`Failure::Crashed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The attachment exceeds [`INPUT_LEN_MAX`](crate::limits::INPUT_LEN_MAX).
    #[error("larger than 32 MB")]
    InputTooLong,
    /// The archive inflates to more than
    /// [`INFLATED_LEN_MAX`](crate::limits::INFLATED_LEN_MAX).
    #[error("inflates to more than 64 MB")]
    InflatedTooLong,
    /// A member inflates to more than
    /// [`INFLATE_RATIO_MAX`](crate::limits::INFLATE_RATIO_MAX) times its size.
    #[error("inflates to more than 200 times its size")]
    RatioTooHigh,
    /// The archive has more than [`MEMBERS_MAX`](crate::limits::MEMBERS_MAX) members.
    #[error("an archive of more than 1,000 members")]
    TooManyMembers,
    /// Elements are nested deeper than [`XML_DEPTH_MAX`](crate::limits::XML_DEPTH_MAX).
    #[error("elements nested deeper than 256")]
    TooDeep,
    /// A piece of XML exceeds [`XML_TOKEN_LEN_MAX`](crate::limits::XML_TOKEN_LEN_MAX).
    #[error("a single piece of XML of more than 1 MB")]
    TokenTooLong,
    /// The shared strings of a workbook exceed
    /// [`SHARED_STRINGS_LEN_MAX`](crate::limits::SHARED_STRINGS_LEN_MAX) or
    /// [`SHARED_STRINGS_MAX`](crate::limits::SHARED_STRINGS_MAX).
    #[error("more than 16 MB of shared strings")]
    StringsTooLong,
    /// The XML has a document type, which could define entities.
    #[error("XML with a document type definition")]
    HasDtd,
    /// The archive ends early, or its directory is damaged.
    #[error("a damaged or truncated archive")]
    BadArchive,
    /// A member is encrypted, or the reader of PDF needs a password or a permission.
    #[error("encrypted")]
    Encrypted,
    /// A member is compressed by a method other than deflate.
    #[error("an archive with an unknown compression")]
    UnknownCompression,
    /// The XML is not well-formed, or not UTF-8.
    #[error("malformed XML")]
    BadXml,
    /// The archive is not a document of a known type.
    #[error("an archive that is no known document")]
    NotADocument,
    /// The text has bytes that no text has.
    #[error("not a text")]
    NotText,
    /// The reader of PDF does not understand the document.
    #[error("a damaged PDF")]
    BadPdf,
    /// No reader of PDF is installed.
    #[error("no PDF reader installed (pdftotext of poppler)")]
    NoPdfReader,
    /// The helper exceeded [`HELPER_TIME_MAX`](crate::limits::HELPER_TIME_MAX).
    #[error("its reader took longer than 20 s")]
    TimeOver,
    /// The helper exceeded [`HELPER_CPU_SECONDS`](crate::limits::HELPER_CPU_SECONDS).
    #[error("its reader took more than 10 s of CPU time")]
    CpuTimeOver,
    /// The helper exceeded [`HELPER_MEMORY_MAX`](crate::limits::HELPER_MEMORY_MAX).
    #[error("its reader needed more than 512 MB of memory")]
    OutOfMemory,
    /// The helper ended in another way than it should.
    #[error("its reader crashed")]
    Crashed,
    /// Somebody has killed the helper: the user, or the kernel for want of memory.
    #[error("its reader was killed")]
    Killed,
    /// The helper could not be confined, so it has read nothing.
    #[error("its reader could not be confined")]
    NotConfined,
    /// The helper could not be started.
    #[error("its reader could not be started")]
    NotStarted,
    /// The caller does not want the text any more.
    #[error("interrupted")]
    Stopped,
}

/// All failures with the names by which a helper reports them; the names never change.
const NAMES: [(Failure, &str); 24] = [
    (Failure::InputTooLong, "input-too-long"),
    (Failure::InflatedTooLong, "inflated-too-long"),
    (Failure::RatioTooHigh, "ratio-too-high"),
    (Failure::TooManyMembers, "too-many-members"),
    (Failure::TooDeep, "too-deep"),
    (Failure::TokenTooLong, "token-too-long"),
    (Failure::StringsTooLong, "strings-too-long"),
    (Failure::HasDtd, "has-dtd"),
    (Failure::BadArchive, "bad-archive"),
    (Failure::Encrypted, "encrypted"),
    (Failure::UnknownCompression, "unknown-compression"),
    (Failure::BadXml, "bad-xml"),
    (Failure::NotADocument, "not-a-document"),
    (Failure::NotText, "not-text"),
    (Failure::BadPdf, "bad-pdf"),
    (Failure::NoPdfReader, "no-pdf-reader"),
    (Failure::TimeOver, "time-over"),
    (Failure::CpuTimeOver, "cpu-time-over"),
    (Failure::OutOfMemory, "out-of-memory"),
    (Failure::Crashed, "crashed"),
    (Failure::Killed, "killed"),
    (Failure::NotConfined, "not-confined"),
    (Failure::NotStarted, "not-started"),
    (Failure::Stopped, "stopped"),
];

impl Failure {
    /// Returns the name, of small letters and dashes, which is the same in all versions.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(failure, _)| *failure == self);
        found.map_or("crashed", |(_, name)| name)
    }

    /// Returns the failure with a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(failure, _)| *failure)
    }

    /// Returns `true` if the same attachment fails again whatever the state of the machine.
    pub fn is_lasting(self) -> bool {
        !matches!(
            self,
            Self::NoPdfReader
                | Self::Killed
                | Self::NotConfined
                | Self::NotStarted
                | Self::Stopped
                | Self::TimeOver
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::*;

    #[test]
    fn every_failure_is_found_by_its_name() {
        for (failure, name) in NAMES {
            assert_eq!((failure.name(), Failure::named(name)), (name, Some(failure)));
        }
        assert_eq!(Failure::named("none"), None);
    }

    #[test]
    fn texts_name_the_limits() {
        let check = |failure: Failure, limit: String| {
            assert!(failure.to_string().contains(&limit), "{failure}: {limit}");
        };
        check(Failure::InputTooLong, format!("{} MB", INPUT_LEN_MAX >> 20));
        check(Failure::InflatedTooLong, format!("{} MB", INFLATED_LEN_MAX >> 20));
        check(Failure::RatioTooHigh, INFLATE_RATIO_MAX.to_string());
        check(Failure::TooManyMembers, format!("{},{:03}", MEMBERS_MAX / 1000, MEMBERS_MAX % 1000));
        check(Failure::TooDeep, XML_DEPTH_MAX.to_string());
        check(Failure::TokenTooLong, format!("{} MB", XML_TOKEN_LEN_MAX >> 20));
        check(Failure::StringsTooLong, format!("{} MB", SHARED_STRINGS_LEN_MAX >> 20));
        check(Failure::TimeOver, format!("{} s", HELPER_TIME_MAX.as_secs()));
        check(Failure::CpuTimeOver, format!("{HELPER_CPU_SECONDS} s"));
        check(Failure::OutOfMemory, format!("{} MB", HELPER_MEMORY_MAX >> 20));
    }
}
