//! Documents of all types, hostile ones, and what a confined process cannot do.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod child;
mod confined;
mod hostile;
mod office;
mod parent;

#[test]
fn no_file_is_forgotten() {
    let runner = include_str!("runner.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = barid_testkit::disk::list_files(&folder).unwrap();
    assert!(files.len() > 4, "{files:?}");
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(name == "runner" || runner.contains(&format!("mod {name};")), "{name}");
    }
}
