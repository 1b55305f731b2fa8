//! A cache returns what a build puts into it.

use crate::world::{KINDS, Model, build_as, cache_path, compare, mem, open, options};

fn check(seed: u64, count: usize, files: bool) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    model.add(&mut rng, count, files, 5);
    for kind in KINDS {
        let vfs = mem();
        let options = options(*kind);
        let built = build_as(&vfs, &cache_path(), &model, &mut rng, &options);
        compare(&built, &model, &mut rng).unwrap();
        let opened = open(&vfs, &cache_path());
        assert_eq!((opened.options(), built.options()), (options, options), "{kind:?}");
        compare(&opened, &model, &mut rng).unwrap();
    }
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
