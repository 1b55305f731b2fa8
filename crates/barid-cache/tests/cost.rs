//! Limits on the cost of opening, reading a page and appending, for any mailbox size.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{Delta, RecordBuf};
use barid_mailbox::ScanReport;
use barid_vfs::{CountingVfs, Counts, MemVfs, Vfs};

use crate::world::{Model, build, cache_path, finish, identity, open, scan};

struct Costs {
    open: Counts,
    page: Counts,
    append: Counts,
    open_again: Counts,
}

fn costs(messages: usize) -> Costs {
    let mut rng = fastrand::Rng::with_seed(60);
    let mut model = Model::new();
    model.add(&mut rng, messages, true, 1);
    let counting = CountingVfs::new(MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
    build(&vfs, &cache_path(), &model, &mut rng);

    let start = counting.counts();
    let snapshot = open(&vfs, &cache_path());
    let opened = counting.counts();
    let rows: Vec<u32> = (snapshot.len() - 50..snapshot.len()).collect();
    snapshot.records(&rows, &mut |_, _, _| {}).unwrap();
    snapshot.record(snapshot.len() - 1, &mut RecordBuf::default()).unwrap();
    let paged = counting.counts();

    model.step += 1;
    model.add(&mut rng, 1, true, 2);
    model.messages[messages].header.truncate(2000);
    let delta = Delta::new(&snapshot);
    let new_uids = scan(&delta, &model.messages[messages..], &mut rng);
    let report = ScanReport { new_uids, ..model.report() };
    delta.apply(&report, &finish(&identity(), 2)).unwrap();
    let appended = counting.counts();
    assert_eq!(open(&vfs, &cache_path()).len() as usize, messages + 1);
    Costs {
        open: opened.since(&start),
        page: paged.since(&opened),
        append: appended.since(&paged),
        open_again: counting.counts().since(&appended),
    }
}

#[test]
fn costs_do_not_grow_with_the_mailbox() {
    for messages in [3_000, 30_000] {
        let costs = costs(messages);
        let bytes = |counts: &Counts| {
            let bytes = counts.bytes_under(Path::new("/cache"));
            (bytes.read, bytes.written)
        };
        assert!(costs.open.calls() <= 4, "{:?}", costs.open);
        assert_eq!(bytes(&costs.open), (4096, 0));
        assert!(costs.page.calls() <= 8, "{:?}", costs.page);
        assert!(bytes(&costs.page).0 <= 8 * 80_000, "{:?}", costs.page);
        assert!(costs.append.calls() <= 12, "{:?}", costs.append);
        let (read, written) = bytes(&costs.append);
        assert!(read == 0 && written <= 4096, "{:?}", costs.append);
        assert!(costs.open_again.calls() <= 5, "{:?}", costs.open_again);
        assert!(bytes(&costs.open_again).0 <= 8192, "{:?}", costs.open_again);
    }
}
