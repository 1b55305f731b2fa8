//! The deviations of servers from the RFC that come from their reading and comparing; each is
//! compared with the server as well.

use barid_message::Profile;
use barid_query::SortProgram;
use barid_testkit::Scratch;
use barid_testkit::peers::{CClient, Dovecot};

use crate::ask::{c_client_answer, dovecot_answer};
use crate::mail::{Mail, Message};
use crate::mailbox_files::{write_maildir, write_mbox};

/// Messages of one header each, a day apart; the answers by the RFC, Dovecot and c-client.
fn check(headers: &[&str], question: &str, [rfc, dovecot, c_client]: [&str; 3]) {
    let message = |(header, day): (&&str, i64)| Message {
        raw: format!("{header}\n\nx\n").into_bytes(),
        arrival: 1_000_000_000 + day * 86400,
    };
    let messages: Vec<Message> = headers.iter().zip(0..).map(message).collect();
    for (profile, answer) in
        [(Profile::Rfc, rfc), (Profile::Dovecot, dovecot), (Profile::CClient, c_client)]
    {
        let mail = Mail::read(&messages, profile);
        let ours = match question.split_once(' ').unwrap() {
            ("THREAD", algorithm) => mail.thread(algorithm.parse().unwrap()),
            (_, keys) => {
                let program: SortProgram = keys.replace("REVERSE ", "reverse:").parse().unwrap();
                let order = mail.sort(&program.read_by(profile));
                order.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
            }
        };
        assert_eq!(ours, answer, "{profile:?}");
    }
    if let Some(mut peer) = CClient::new() {
        write_mbox(&peer.folder().join("box"), &messages).unwrap();
        peer.open("box").unwrap();
        assert_eq!(c_client_answer(&mut peer, question).unwrap(), c_client);
    }
    if let Some(peer) = Dovecot::new() {
        let scratch = Scratch::new("profile-difference").unwrap();
        write_maildir(&scratch.path().join("mail"), &messages).unwrap();
        let location = format!("maildir:{}/mail", scratch.path().display());
        let mut imap = peer.imap(&location, &[]).unwrap();
        imap.command("SELECT INBOX").unwrap();
        assert_eq!(dovecot_answer(&mut imap, question).unwrap(), dovecot);
    }
}

#[test]
fn profile_difference_the_first_second_of_1970_is_no_date_to_the_servers() {
    let headers = ["Date: Mon, 1 Jan 2001 00:00:00 +0000", "Date: Thu, 1 Jan 1970 00:00:00 +0000"];
    check(&headers, "SORT DATE", ["2 1", "1 2", "1 2"]);
}

#[test]
fn profile_difference_dovecot_keeps_the_reverse_of_a_repeated_key() {
    let headers = ["Subject: a\nTo: a@x", "Subject: a\nTo: b@x"];
    check(&headers, "SORT REVERSE SUBJECT REVERSE SUBJECT TO", ["1 2", "2 1", "1 2"]);
}

#[test]
fn profile_difference_c_client_compares_addresses_in_small_letters() {
    check(&["From: ab@x", "From: a_@x"], "SORT FROM", ["1 2", "1 2", "2 1"]);
}

#[test]
fn profile_difference_c_client_joins_broken_subjects_of_another_case_by_subject_alone() {
    let headers = ["Subject: =?utf-8?x?a?= b", "Subject: =?utf-8?x?a?= B"];
    check(&headers, "THREAD ORDEREDSUBJECT", ["(1 2)", "(1 2)", "(1 2)"]);
    check(&headers, "THREAD REFERENCES", ["((1)(2))", "((1)(2))", "(1)(2)"]);
}

#[test]
fn profile_difference_c_client_represents_a_dummy_by_its_first_linked_child() {
    let headers = [
        "Subject: Re: a\nDate: Fri, 5 Jan 2001 00:00:00 +0000",
        "Subject: Re: a\nDate: Tue, 9 Jan 2001 00:00:00 +0000\nReferences: <absent@x>",
        "Date: Fri, 5 Jan 2001 00:00:00 +0000\nReferences: <absent@x>",
    ];
    check(&headers, "THREAD REFERENCES", ["(1)((3)(2))", "(1)((3)(2))", "((1)(3)(2))"]);
}
