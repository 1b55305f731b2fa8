use super::*;

#[test]
fn commands_follow_one_another() {
    check("a NOOP\r\nb idle\n", &["a Noop", "b Idle"]);
    check(
        "a LOGIN {3}\r\nann {2+}\r\npw\r\nb NOOP\r\n",
        &["Continue", "a Login { user: [97, 110, 110], password: [112, 119] }", "b Noop"],
    );
    check(
        "a FOO {5+}\r\n12345{4+}\r\n1234\r\nb NOOP\r\n",
        &["a BAD Unknown command FOO.", "b Noop"],
    );
}
