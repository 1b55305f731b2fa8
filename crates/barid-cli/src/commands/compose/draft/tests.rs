use super::*;

const RECEIVED: &str = "Message-ID: <2@x>\nReferences: <0@x>\n <1@x>\nFrom: Ann <ann@x>\n\
    To: Bob Lee <bob@x>, list@x\nCc: \"C, D\" <cd@x>, ann@x\nSubject: =?utf-8?q?Caf=C3=A9?=\n\
    Date: Fri, 17 May 2024 16:20:00 +0200\nList-Post: <mailto:list@x>\n\n\
    one\n\n> two\n-- \nAnn\n";

fn reply(recipients: ReplyScope, from: Option<&str>) -> MailDraft {
    let original = Original::of(RECEIVED.as_bytes());
    MailDraft::reply(&original, recipients, from.map(str::to_owned), true).unwrap()
}

#[test]
fn an_answer_goes_to_the_author() {
    let expected = "To: Ann <ann@x>\nCc:\nSubject: Re: Café\nIn-Reply-To: <2@x>\n\n\
        On 2024-05-17 16:20, Ann wrote:\n> one\n>\n>> two\n\n";
    assert_eq!(reply(ReplyScope::Author, None).template(), expected);
}

#[test]
fn everybody_gets_one_answer_but_for_its_author() {
    let check = |from: Option<&str>, to: &str, cc: &str| {
        let draft = reply(ReplyScope::All, from);
        let value = |name: &str| {
            let found = draft.fields.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        assert_eq!((&*value("To"), &*value("Cc")), (to, cc), "{from:?}");
    };
    check(None, "Ann <ann@x>", "Bob Lee <bob@x>, list@x, \"C, D\" <cd@x>");
    check(Some("Bob <BOB@x>"), "Ann <ann@x>", "list@x, \"C, D\" <cd@x>");
    check(Some("ann@x"), "Bob Lee <bob@x>, list@x, \"C, D\" <cd@x>", "");
}

#[test]
fn a_list_gets_an_answer_if_there_is_one() {
    assert_eq!(reply(ReplyScope::List, None).recipients().unwrap(), ["list@x"]);
    let original = Original::of(b"From: a@b\n\nx");
    let error = MailDraft::reply(&original, ReplyScope::List, None, false).unwrap_err();
    assert!(error.to_string().contains("no mailing list"), "{error}");
}

#[test]
fn what_was_edited_is_sent() {
    let draft = reply(ReplyScope::Author, Some("Jörg <j@y>"));
    let edited = draft
        .edited("From: Jörg <j@y>\nTo: Ann\n <ann@x>\nSubject: ü\nIn-Reply-To: <2@x>\n\nTag ä\n")
        .unwrap();
    assert_eq!(edited.recipients().unwrap(), ["ann@x"]);
    let message = String::from_utf8(edited.message().unwrap()).unwrap();
    let (header, body) = message.split_once("\n\n").unwrap();
    assert!(header.is_ascii(), "{header}");
    for field in ["In-Reply-To: <2@x>", "References: <0@x> <1@x> <2@x>", "@y>"] {
        assert!(header.contains(field), "{header}");
    }
    assert!(!message.contains('\r'));
    let parsed = barid::message::readable_text(message.as_bytes());
    assert_eq!(parsed.trim(), "Tag ä", "{body}");
    let original = Original::of(message.as_bytes());
    assert_eq!(original.subject(), "ü");
    assert_eq!(original.authors()[0].in_field(), "Jörg <j@y>");
    let alone = draft.edited("To: ann@x\n\nx\n").unwrap().message().unwrap();
    assert!(!String::from_utf8(alone).unwrap().contains("References"));
}

#[test]
fn what_cannot_be_sent_is_explained() {
    let draft = reply(ReplyScope::Author, None);
    let check = |template: &str, expected: &str| {
        let found = draft.edited(template).and_then(|draft| draft.recipients()).unwrap_err();
        assert!(found.to_string().contains(expected), "{found}");
    };
    check("To: ann@x\nhello\n\nx", "line 2: \"hello\" is not a header field");
    check(" To: ann@x\n\nx", "line 1");
    check("To:\nSubject: a\n\nx", "no recipient");
    check("To: ann\n\nx", "\"ann\" is not an address");
    check("To: a@x; b@x\n\nx", "is not an address");
    check("To: a@x, Bob Lee\n\nx", "is not an address");
    check("", "no recipient");
}

#[test]
fn a_forwarded_message_is_whole() {
    let original = Original::of(RECEIVED.as_bytes());
    let draft = MailDraft::forward(&original, "bob@x", None, false).unwrap();
    let message = draft.message().unwrap();
    let (root, _) = barid::message::body_structure(&message);
    assert_eq!(root.parts.len(), 2);
    let (body, _) = barid::message::part_body(&message, &root.parts[1]);
    assert_eq!(String::from_utf8_lossy(&body).trim_end(), RECEIVED.trim_end());
    let inline = MailDraft::forward(&original, "", None, true).unwrap().template();
    let expected = "To:\nSubject: Fwd: Café\n\n\n---------- Forwarded message ----------\n\
        From: Ann <ann@x>\nDate: 2024-05-17 16:20\nSubject: Café\nTo: Bob Lee <bob@x>, list@x\n\
        Cc: \"C, D\" <cd@x>, ann@x\n\none\n\n> two\n";
    assert_eq!(inline, expected);
}

#[test]
fn what_was_received_begins_no_field() {
    let received = "Message-ID: <1@x>\nFrom: =?utf-8?q?A=0ABcc:_evil=40x?= <a@x>\n\
        Subject: =?utf-8?q?hi=0ABcc:_evil@x=0A=0A?=\nReferences: <a\u{1b}[2Jb@x>\n\nx\n";
    let original = Original::of(received.as_bytes());
    let draft = MailDraft::reply(&original, ReplyScope::Author, None, false).unwrap();
    let again = draft.edited(&draft.template()).unwrap();
    assert_eq!(again, draft);
    assert_eq!(again.recipients().unwrap(), ["a@x"]);
    assert_eq!(draft.references, "<1@x>");
    let forwarded = MailDraft::forward(&original, "b@x", None, true).unwrap();
    assert_eq!(forwarded.edited(&forwarded.template()).unwrap(), forwarded);
}
