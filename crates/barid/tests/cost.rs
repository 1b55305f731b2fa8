//! What opening costs, counted: it stays incremental.

use barid_vfs::{CallKind, Counts, Vfs};

use crate::world::World;

/// What one opening costs.
fn cost_of_opening(world: &World) -> Counts {
    let before = world.vfs.counts();
    drop(world.open());
    world.vfs.counts().since(&before)
}

fn quiet(world: &World) {
    world.wait();
    world.open();
}

#[test]
fn an_unchanged_mailbox_costs_the_same_whatever_its_size() {
    let cost = |mut world: World, count| {
        world.deliver(count);
        quiet(&world);
        quiet(&world);
        let cost = cost_of_opening(&world);
        assert_eq!(cost.of(CallKind::List), 0);
        assert_eq!(cost.bytes().written, 0);
        (cost.calls(), cost.bytes().read)
    };
    for world in [World::maildir, World::mbox] {
        let (small, large) = (cost(world(1), 10), cost(world(1), 3000));
        println!("calls and bytes read: {small:?}, {large:?}");
        assert_eq!(small.0, large.0);
        assert!(large.0 <= 30, "{large:?}");
        assert!(large.1 <= 16 << 10, "{large:?}");
    }
}

#[test]
fn one_message_appended_to_an_mbox_costs_little() {
    let mut world = World::mbox(1);
    world.deliver(5000);
    quiet(&world);
    world.deliver(1);
    world.wait();
    let cost = cost_of_opening(&world);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    assert!(cost.calls() <= 40, "{cost:?}");
    assert!(cost.bytes_under(world.path()).read <= 64 << 10, "{cost:?}");
    assert!(cost.bytes().written <= 256 << 10, "{cost:?}");
}

#[test]
fn one_delivery_to_a_maildir_lists_one_directory() {
    let mut world = World::maildir(1);
    world.deliver(3000);
    quiet(&world);
    quiet(&world);
    world.deliver(1);
    world.wait();
    let cost = cost_of_opening(&world);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    assert_eq!(cost.of(CallKind::List), 1, "{cost:?}");
    assert!(cost.calls() <= 85, "{cost:?}");
    let uidlist = cost.bytes_under(&world.path().join("dovecot-uidlist"));
    assert!(uidlist.read + uidlist.written <= 4 << 10, "{uidlist:?}");
    assert!(cost.bytes().written <= 256 << 10, "{cost:?}");
    let size = world.memory.metadata(&world.path().join("dovecot-uidlist")).unwrap().size;
    assert!(size > 100 << 10, "the list is long enough to tell");
}
