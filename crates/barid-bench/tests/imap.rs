//! `barid-bench imap` with the real servers, and small mailboxes.

use barid_testkit::peers::DovecotMaster;
use barid_testkit::{disk, skip_or_fail};

use crate::support::{World, check_parts};

#[test]
fn both_servers_are_measured_and_give_the_same_answers() {
    let Some(world) = World::with_barid() else { return };
    if !DovecotMaster::is_installed() {
        skip_or_fail("Dovecot (Debian package dovecot-imapd)");
        return;
    }
    let works = "login idle-one flags envelope thread append-many move";
    let args = ["imap", "--quick", "--rounds", "1", "--only", works, "-o", "out"];
    let out = world.ok(&args);
    let lines = [
        " 0 - login maildir             - dovecot service_count=0",
        " 0 - envelope mbox             - barid",
        " 1 - thread mbox               - dovecot",
    ];
    for line in lines {
        assert!(out.lines().any(|said| said == line), "{line} in {out}");
    }
    let raw = String::from_utf8(world.read("out/raw.csv")).unwrap();
    // Of each work in each format two rounds of two servers, or of three.
    let (of_two, of_three) = (1 + 2 * 2 + 3, 1);
    let rows: Vec<Vec<&str>> = raw.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2 * (2 * of_two + 3 * of_three), "{raw}");
    let head: Vec<&str> = raw.lines().next().unwrap_or_default().split(',').collect();
    let column = |name| head.iter().position(|head| *head == name).unwrap();
    for row in &rows {
        let number = |name| row[column(name)].parse::<f64>().unwrap();
        assert!(number("real_s") > 0.0, "{row:?}");
        let is_idle = row[column("step")].starts_with("idle");
        assert_eq!(number("pss_bytes") > 0.0, is_idle, "{row:?}");
    }
    let summary = String::from_utf8(world.read("out/summary.md")).unwrap();
    check_parts(&summary, &["# An IMAP server", "barid --cache-dir DIR/server0/cache"]);
    assert!(!disk::exists(&world.path("out/work")));
}
