//! Results stored beside the cache are read, not computed again.

use barid::{SortProgram, ThreadAlgorithm, Window};
use std::path::Path;

use crate::world::World;

#[test]
fn a_window_of_a_stored_order_reads_one_block_of_it() {
    let mut world = World::maildir(1);
    world.deliver(2000);
    world.wait();
    let program = SortProgram::parse(["date"]).unwrap();
    world.open().sorted(&program, Window::All).unwrap();
    world.deliver(2);
    world.wait();
    let mut mailbox = world.open();
    let before = world.vfs.counts();
    let rows = mailbox.sorted(&program, Window::Last(50)).unwrap().rows;
    let cost = world.vfs.counts().since(&before);
    let mut anew = world.open_from_scratch();
    assert_eq!(rows, anew.sorted(&program, Window::Last(50)).unwrap().rows);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    assert_eq!(cost.bytes().written, 0);
    assert!(cost.calls() <= 20, "{cost:?}");
}

#[test]
fn threads_are_read_and_extended_not_stored_for_every_message() {
    let mut world = World::mbox(1);
    world.deliver(2000);
    world.wait();
    world.open().threads(ThreadAlgorithm::References).unwrap();
    let mailbox = world.open();
    let before = world.vfs.counts();
    mailbox.threads(ThreadAlgorithm::References).unwrap();
    let again = world.vfs.counts().since(&before);
    assert!(again.calls() <= 4, "{again:?}");
    world.deliver(3);
    let mailbox = world.open();
    let before = world.vfs.counts();
    let threads = mailbox.threads(ThreadAlgorithm::References).unwrap();
    let extended = world.vfs.counts().since(&before);
    assert_eq!(threads.rows(), 2003);
    assert_eq!(extended.bytes().written, 0, "{extended:?}");
    assert!(extended.bytes_under(Path::new("/cache")).read < 1 << 20, "{extended:?}");
}
