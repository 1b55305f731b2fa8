//! The messages between the processes of a server, and the file of deliveries.

use std::path::Path;
use std::sync::Arc;

use barid_serve::delivery::{
    RememberedDelivery, remember_delivery, remembered_delivery, sealed_deliveries,
};
use barid_serve::server::decode_as_any_message;
use barid_vfs::{MemVfs, OpenOptions, Vfs};

/// Words of messages.
pub(crate) const MESSAGE_WORDS: &[&str] = &[
    "{\"Session\":",
    "\"attempt\":",
    "\"peer\":\"::1\"",
    "null",
    "[]",
    "{}",
    "18446744073709551616",
    "-1",
    "1e400",
    "\\ud800",
    "AAAA==",
    "[[[[",
    "\"fields\":[[\"a\",\"b\"]]",
];

/// The folder of the file.
const DIR: &str = "/state";
/// The file.
const FILE: &str = "/state/deliveries";
/// The Message-ID of the seeds.
const KNOWN: &[u8] = b"<known@example.org>";

/// A message, of whatever kind: what is decoded is encoded to the same again.
pub(crate) fn process_messages(bytes: &[u8]) {
    for message in decode_as_any_message(bytes) {
        let again = decode_as_any_message(&message.encoded);
        assert!(again.contains(&message), "{message:?}: {again:?}");
    }
}

/// Messages of every kind.
pub(crate) fn process_message_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"Certificate":{"names":["a.example"],"certificate":"x","key":"y"}}"#,
        r#"{"Settings":[{"connections":1,"before_login":2,"per_address":3,"login_timeout":{"secs":60,"nanos":0}},["IDLE"]]}"#,
        r#"{"Listener":{"id":1,"protocol":"Imap"}}"#,
        r#"{"Refused":{"attempt":1,"code":"Unavailable","text":"x"}}"#,
        r#""LoginLink""#,
        r#"{"Log":{"level":"Warning","text":"x","user":"ann","peer":"192.0.2.1","session":7}}"#,
        r#"{"Metrics":{"id":1,"connections":2,"accepted":3,"refused":4}}"#,
        r#"{"Settings":{"path":"/etc/barid.toml","secret":"AAAA"}}"#,
        r#"{"LookUp":{"id":1,"name":"ann"}}"#,
        r#"{"Verified":{"link":1,"attempt":2,"peer":"::1","is_tls":true,"user":{"name":"ann","uid":1000,"gid":1000,"home":"/home/ann","fields":[["userdb_mail","maildir:~"]]},"login":"ann","mechanism":"PLAIN"}}"#,
        r#"{"Found":{"id":1,"user":{"name":"ann","uid":null,"gid":null,"home":null,"fields":[]}}}"#,
        r#"{"Start":{"attempt":1,"channel":{"peer":null,"is_private":true,"is_tls":true,"tls_exporter":"AAAA","tls_server_end_point":null},"mechanism":"PLAIN","initial":"AGFubgBzZWNyZXQ="}}"#,
        r#"{"Respond":{"attempt":1,"message":"AAAA"}}"#,
        r#"{"Offered":{"attempt":1,"mechanisms":["PLAIN","SCRAM-SHA-256"]}}"#,
        r#"{"Challenge":{"attempt":1,"message":""}}"#,
        r#"{"Settings":{"path":"/x","user":{"name":"ann","uid":1,"gid":1,"home":"/","fields":[]},"shares_watcher":true}}"#,
        r#"{"Kick":{"session":1}}"#,
        r#"{"tag":"a","client_id":[["name","x"]],"unread":"AAAA"}"#,
        r#"{"service":"imap","name_extra":"+","is_lower_case":true,"name":"ann","password":"AAAA","peer":null}"#,
        r#"{"Unavailable":{"why":"x"}}"#,
        r#""WrongPassword""#,
        r#"{"Settings":{"hostname":"mx","size_max":1,"folder":"/x","timeout":{"secs":300,"nanos":0}}}"#,
        r#"{"Answer":{"id":1,"answer":"Stream"}}"#,
        r#"{"Answer":{"id":1,"answer":{"Failed":{"kind":"Temporary","text":"x"}}}}"#,
        r#"{"Deliver":{"id":1,"address":"ann@example.org"}}"#,
        r#"{"Recipient":{"id":1,"address":"ann@example.org"}}"#,
        r#""Message""#,
        r#"{"sender":"a@b","recipient":"ann@example.org","len":7}"#,
        r#"{"result":{"Stored":{"mailbox":"INBOX","notes":["x"]}},"warnings":["y"]}"#,
        r#"{"Ended":"Deferred"}"#,
        r#"{"Worker":{"number":1}}"#,
        r#""Add""#,
        r#"{"Remove":{"watch":1}}"#,
        r#"{"Happened":{"watches":[1,2]}}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn disk(file: &[u8]) -> Arc<dyn Vfs> {
    let vfs = MemVfs::new();
    let made = vfs.create_dir_all(Path::new(DIR), 0o700).and_then(|()| {
        let new = vfs.open(Path::new(FILE), OpenOptions::create_new(0o600))?;
        new.write_all_at(file, 0)
    });
    made.expect("because memory has room");
    Arc::new(vfs)
}

fn state(vfs: &Arc<dyn Vfs>, id: &[u8]) -> RememberedDelivery {
    remembered_delivery(vfs, Path::new(DIR), id).expect("because any file is repaired")
}

/// A file of deliveries: it is repaired once, and then remembers what it is told.
pub(crate) fn deliveries(bytes: &[u8]) {
    let vfs = disk(bytes);
    let known = state(&vfs, KNOWN);
    let repaired = vfs.read(Path::new(FILE), u64::MAX).expect("because it exists");
    assert_eq!(state(&vfs, KNOWN), known);
    assert_eq!(vfs.read(Path::new(FILE), u64::MAX).ok(), Some(repaired), "repaired again");
    for (id, is_stored, expected) in [
        (&b"<new@example.org>"[..], false, RememberedDelivery::Pending),
        (b"<new@example.org>", true, RememberedDelivery::Stored),
        (b"<other@example.org>", true, RememberedDelivery::Stored),
    ] {
        let place = (id, "\u{fc} \n/x");
        remember_delivery(&vfs, Path::new(DIR), place, is_stored).expect("because memory has room");
        assert_eq!((state(&vfs, id), state(&vfs, KNOWN)), (expected, known));
    }
}

/// As [`deliveries`], with the right checksums.
pub(crate) fn deliveries_sealed(bytes: &[u8]) {
    deliveries(&sealed_deliveries(bytes));
}

/// Files with a delivery that has ended, one that has not, and several.
pub(crate) fn deliveries_seeds() -> Vec<Vec<u8>> {
    let file = |steps: &[(&[u8], bool)]| {
        let vfs = disk(b"");
        for (id, is_stored) in steps {
            remember_delivery(&vfs, Path::new(DIR), (*id, "INBOX"), *is_stored)
                .expect("because memory has room");
        }
        vfs.read(Path::new(FILE), u64::MAX).expect("because it exists")
    };
    vec![
        file(&[(KNOWN, true)]),
        file(&[(KNOWN, false)]),
        file(&[(b"<a@b>", true), (KNOWN, false), (b"<a@b>", false), (KNOWN, true)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_a_message() {
        for seed in process_message_seeds() {
            let text = String::from_utf8_lossy(&seed).into_owned();
            assert!(!decode_as_any_message(&seed).is_empty(), "{text}");
        }
    }
}
