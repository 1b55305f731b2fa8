use super::*;

const PLAIN: &str = "AppendMessage { mailbox: MailboxName(\"x\"), is_first: true, \
    flags: FlagList { flags: {}, keywords: [] }, internal_date: None }";

#[test]
fn messages_leave_in_pieces() {
    let message = ["data abc", "MessageEnd", "a Append", "b Noop"];
    let literal = "Literal { len: 3, is_binary: false } sync";
    let mut expected = vec![PLAIN, literal];
    expected.extend(message);
    check("a APPEND x {3}\r\nabc\r\nb NOOP\r\n", &expected);
    expected[1] = "Literal { len: 3, is_binary: true } sync";
    check("a APPEND x UTF8 (~{3}\r\nabc)\r\nb NOOP\r\n", &expected);
    check(
        "a APPEND x CATENATE (URL \"/y\" TEXT {3}\r\nabc URL {2+}\r\n/z)\r\nb NOOP\r\n",
        &[
            PLAIN,
            "Url(\"/y\")",
            literal,
            "data abc",
            "Url(\"/z\")",
            "MessageEnd",
            "a Append",
            "b Noop",
        ],
    );
}
