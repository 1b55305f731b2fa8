//! What a build puts into a cache comes out of it.

use crate::world::{Model, build, cache_path, compare, mem, open};

fn check(seed: u64, count: usize, files: bool) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    model.add(&mut rng, count, files, 5);
    let vfs = mem();
    let built = build(&vfs, &cache_path(), &model, &mut rng);
    compare(&built, &model, &mut rng).unwrap();
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
}

#[test]
fn an_empty_mailbox() {
    check(1, 0, false);
}

#[test]
fn messages_in_spans() {
    check(2, 1, false);
    check(3, 3000, false);
}

#[test]
fn messages_in_files() {
    check(4, 1, true);
    check(5, 3000, true);
}
