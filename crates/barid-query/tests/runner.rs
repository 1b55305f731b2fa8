//! Tests that need more than one module of the crate.

#![expect(clippy::print_stderr, reason = "what was compared is printed")]
#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod ask;
mod differential;
mod imaptest;
mod incremental;
mod mail;
mod mailbox_files;
mod model;
mod patterns;
mod profile_differences;
mod random;
mod real_mail;
mod scale;
mod thread_model;

#[test]
fn no_test_file_is_forgotten() {
    let known = include_str!("runner.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    #[expect(clippy::disallowed_methods, reason = "the test looks at its own source folder")]
    let entries = std::fs::read_dir(folder).unwrap();
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "runner") {
            assert!(known.contains(&format!("mod {module};")), "{name} is not in runner.rs");
        }
    }
}
