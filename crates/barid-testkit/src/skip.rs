//! The handling of tests whose requirements are missing.

/// Reports that a test cannot run because `what` is missing.
///
/// Prints `skipped: ...`; the caller then returns. If the environment variable `CI` is `true`,
/// nothing may be missing.
///
/// # Panics
///
/// With `CI=true`.
#[expect(clippy::print_stderr, reason = "test output")]
pub fn skip_or_fail(what: &str) {
    assert!(!in_ci(), "missing, and CI=true: {what}");
    eprintln!("skipped: {what}");
}

/// Returns `true` if the environment has `CI=true`.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}
