//! The section of the limits of a user's mail, and the field of the user base that overrides it.

use barid_auth::User;

use super::reader::Section;
use super::values::size;
use crate::quota::Quota;

impl Quota {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        Self {
            size: section.and_then(|section| section.parsed("size", size)),
            messages: section.and_then(|section| section.number("messages", 1..=u64::MAX)),
        }
    }

    /// Returns the quota of a user: that of the user base's field `quota_rule`
    /// (`*:storage=1G:messages=1000`, as Dovecot reads it), else this one. A limit of 0 is none.
    #[must_use]
    pub fn of(self, user: &User) -> Self {
        let Some(rule) = user.field("quota_rule") else { return self };
        let Some(limits) = rule.strip_prefix("*:") else { return self };
        let mut quota = self;
        for limit in limits.split(':') {
            match limit.split_once('=') {
                // Dovecot counts storage without a unit in KB.
                Some(("storage", value)) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let kilobytes: Option<u64> = value.parse().ok();
                    quota.size = kilobytes.and_then(|size| size.checked_mul(1024));
                }
                Some(("storage" | "bytes", value)) => quota.size = size(value).ok(),
                Some(("messages", value)) => quota.messages = value.parse().ok(),
                _ => {}
            }
        }
        let some = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
        Self { size: some(quota.size), messages: some(quota.messages) }
    }
}
