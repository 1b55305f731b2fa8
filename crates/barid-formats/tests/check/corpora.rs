//! Mailboxes that c-client itself has written are sound, and one that it refuses is not.

use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_formats::check::{CheckOptions, CheckReport, check};
use barid_testkit::corpora;
use barid_vfs::{OsVfs, Vfs};

fn look(name: &str) -> Option<CheckReport> {
    let folder = corpora::find("dev-formats")?;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let spec = MailboxSpec { format: None, path: folder.join(name) };
    Some(check(&vfs, &spec, &CheckOptions::default()).unwrap())
}

#[test]
fn what_c_client_wrote_is_sound() {
    let (all, pruned) = corpora::either("dev-formats", (411, 528), (120, 100));
    for (name, messages) in [
        ("uw.mbx", all),
        ("uw-pruned.mbx", pruned),
        ("uw-empty.mbx", 0),
        ("test.mbx", 3),
        ("uw.mix", all),
        ("uw-pruned.mix", pruned),
        ("uw-empty.mix", 0),
        ("uw.mmdf", all),
        ("uw.unix", all),
    ] {
        let Some(found) = look(name) else { return };
        assert!(!found.is_repairable, "{name}: {:#?}", found.damages);
        assert_eq!(found.messages, messages, "{name}");
    }
}

#[test]
fn what_c_client_refuses_is_damaged() {
    let Some(found) = look("malformed.mbx") else { return };
    assert!(found.is_repairable, "{:#?}", found.damages);
}
