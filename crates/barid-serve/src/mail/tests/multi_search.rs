//! ESEARCH in several mailboxes (RFC 7377), one of which cannot be read.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid::vfs::{CallKind, Fault, FaultEffect, FaultVfs, MemVfs, Vfs as _};

use super::TestUser;
use crate::quota::Quota;

#[test]
fn other_mailboxes_are_answered_if_one_cannot_be_searched() {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/ann/Maildir"), 0o700).unwrap();
    let user = TestUser::in_vfs(Arc::new(disk.clone()), Quota::default());
    let mut client = user.client();
    for name in ["a", "b", "c"] {
        client.check(&format!("CREATE {name}"), "x OK");
        client.append(name, &["A: b\r\n\r\nword\r\n"]);
        client.check(&format!("SELECT {name}"), "x OK");
    }
    drop((client, user));
    let fault = Fault {
        kind: Some(CallKind::Read),
        under: Some("/ann/Maildir/.b".into()),
        effect: FaultEffect::Error(ErrorKind::Other),
        forever: true,
        ..Fault::nth(0)
    };
    let user = TestUser::in_vfs(Arc::new(FaultVfs::new(disk, fault)), Quota::default());
    let mut client = user.client();
    let answer = client.command("ESEARCH IN (personal) RETURN (COUNT) BODY word");
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), 4, "{answer}");
    assert!(lines[0].starts_with("* ESEARCH (TAG \"x\" MAILBOX a "), "{answer}");
    assert!(lines[1].starts_with("* NO [UNAVAILABLE] b: "), "{answer}");
    assert!(lines[2].starts_with("* ESEARCH (TAG \"x\" MAILBOX c "), "{answer}");
    assert_eq!(lines[3], "x NO [UNAVAILABLE] Not all mailboxes could be searched");
    // As in a search of the mailbox alone.
    client.check("SELECT b", "x OK");
    client.check("SEARCH BODY word", "x NO [UNAVAILABLE]");
    let answer = client.command("ESEARCH IN (selected mailboxes a) RETURN (COUNT) BODY word");
    assert!(answer.contains("MAILBOX a ") && answer.contains("* NO [UNAVAILABLE] b: "), "{answer}");
}
