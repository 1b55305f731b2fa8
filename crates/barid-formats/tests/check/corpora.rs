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
    for (name, messages) in [
        ("uw.mbx", 411),
        ("uw-pruned.mbx", 528),
        ("uw-empty.mbx", 0),
        ("test.mbx", 3),
        ("uw.mix", 411),
        ("uw-pruned.mix", 528),
        ("uw-empty.mix", 0),
        ("uw.mmdf", 411),
        ("uw.unix", 411),
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
