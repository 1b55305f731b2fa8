//! Tests of the library: opening, following changes, and their cost.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "what was compared is printed")]

mod arena;
mod attachment_search;
mod blocked;
mod cache_states;
mod changing;
mod child;
mod converting;
mod converting_crash;
mod corners;
mod cost;
mod crash;
mod damaged_state;
mod expected;
mod fetch_cached;
mod fetching;
mod healing;
mod histories;
mod imaptest;
mod incremental;
mod keeping;
mod listed;
mod mh_killed;
mod mh_peers;
mod modseq;
mod moving;
mod objectid;
mod once;
mod opening;
mod partly;
mod pending;
mod preview;
mod races;
mod reading;
mod scan_memory;
mod search;
mod search_peer;
mod search_programs;
mod shared;
mod sharing;
mod text_index;
mod text_index_rows;
mod torn;
mod uids;
mod undo;
mod unfinished;
mod unseen;
mod view;
mod watching;
mod world;

#[test]
fn every_file_is_a_module() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let runner = barid_testkit::disk::read_text(&here.join("runner.rs")).unwrap();
    for file in barid_testkit::disk::list_files(&here).unwrap() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let declared = name == "runner" || runner.contains(&format!("mod {name};"));
        assert!(declared, "tests/{name}.rs is forgotten");
    }
}
