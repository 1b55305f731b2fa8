//! Clients that mean harm (the attack list of the server's design).

use super::{Client, MESSAGES};
use crate::limits::{
    BAD_COMMANDS_BEFORE_LOGIN_MAX, LINE_LEN_BEFORE_LOGIN_MAX, LITERAL_LEN_BEFORE_LOGIN_MAX,
};
use crate::memory::MemoryAccount;
use crate::session::{Login, LoginRequest, LoginSettings, Next};
use crate::wire::{Decoder, Event};

/// Sends bytes before login until the server asks for more or takes a step; returns the step and
/// what was answered.
fn before_login(login: &mut Login, bytes: &[u8]) -> (LoginRequest, String) {
    login.receive(bytes);
    let mut out = Vec::new();
    let request = loop {
        match login.poll() {
            Event::More => break LoginRequest::Continue,
            event => match login.handle(event, &mut out) {
                LoginRequest::Continue => {}
                request => break request,
            },
        }
    };
    (request, String::from_utf8_lossy(&out).into_owned())
}

fn login() -> Login {
    let settings = LoginSettings {
        can_start_tls: true,
        allows_passwords: true,
        mechanisms: vec!["PLAIN".to_owned()],
        ..LoginSettings::default()
    };
    Login::new(settings, Decoder::new())
}

#[test]
fn before_login_little_is_read() {
    let deep = format!("a LIST {}\r\n", "(".repeat(20_000));
    let endless = "a".repeat(LINE_LEN_BEFORE_LOGIN_MAX * 3);
    let literal = format!("a LOGIN {{{}}}\r\n", LITERAL_LEN_BEFORE_LOGIN_MAX + 1);
    let many = "a NOSUCH\r\n".repeat(BAD_COMMANDS_BEFORE_LOGIN_MAX as usize);
    for (input, closes) in [
        (deep.as_str(), false),
        (&endless, true),
        (&literal, false),
        (&many, true),
        ("a APPEND INBOX {5}\r\n", false),
        ("a LOGIN \"\0\" x\r\n", false),
        ("a LOGIN {3+}\r\na\0b x\r\n", false),
        ("a LOGIN \"\u{e9}\" x\r\n", false),
    ] {
        let mut login = login();
        let (request, answer) = before_login(&mut login, input.as_bytes());
        let shown = &input[..input.len().min(30)];
        assert!(!answer.contains("OK"), "{shown}: {answer}");
        assert!(answer.len() < 1000, "{shown}: {} bytes", answer.len());
        let is_closed = request == LoginRequest::Close;
        assert!(is_closed || !closes, "{shown}: {request:?} {answer}");
        assert!(!matches!(request, LoginRequest::StartTls), "{shown}");
    }
}

#[test]
fn junk_in_a_sasl_response_stays_a_response() {
    for junk in ["====", "!!", "AAAA=BBB", "a SELECT INBOX", "(((((", "*"] {
        let mut login = login();
        let (request, _) = before_login(&mut login, b"a AUTHENTICATE PLAIN\r\n");
        assert!(matches!(request, LoginRequest::Authenticate { initial: None, .. }), "{request:?}");
        login.challenge("", &mut Vec::new());
        let (request, answer) = before_login(&mut login, format!("{junk}\r\n").as_bytes());
        assert_eq!(request, LoginRequest::Response(junk.as_bytes().to_vec()));
        assert_eq!(answer, "");
    }
    let mut login = login();
    before_login(&mut login, b"a AUTHENTICATE PLAIN\r\n");
    login.challenge("", &mut Vec::new());
    let (request, _) = before_login(&mut login, &b"A".repeat(100_000));
    assert_eq!(request, LoginRequest::Close);
}

#[test]
fn nothing_behind_starttls_is_run() {
    let mut login = login();
    let (request, answer) =
        before_login(&mut login, b"a STARTTLS\r\nb LOGIN ann secret\r\nc CAPABILITY\r\n");
    assert_eq!(request, LoginRequest::StartTls);
    assert!(answer.starts_with("a OK") && answer.lines().count() == 1, "{answer}");
    // The server makes a new state, so what was sent in clear is gone with this one.
    drop(login);
}

#[test]
fn after_login_bounds_are_answered() {
    let account = MemoryAccount::new(&MESSAGES);
    for input in [
        format!("x SEARCH {}ALL{}\r\n", "(".repeat(5000), ")".repeat(5000)),
        format!("x SEARCH {} ALL\r\n", "NOT ".repeat(50_000)),
        format!("x FETCH 1 ({})\r\n", "BODY[1] BODY[2] ".repeat(2000)),
        format!("x FETCH 1 BODY[{}]\r\n", "1.".repeat(100_000)),
        format!("x FETCH {}1 FLAGS\r\n", "1,".repeat(200_000)),
        format!("x STORE 1 FLAGS ({})\r\n", "a ".repeat(10_000)),
        format!("x LIST \"\" ({})\r\n", "* ".repeat(10_000)),
        "x FETCH 0 FLAGS\r\n".to_owned(),
        "x FETCH 99999999999 FLAGS\r\n".to_owned(),
        "x FETCH 1 BODY[]<99999999999999999999.1>\r\n".to_owned(),
        "x SELECT \"a\0b\"\r\n".to_owned(),
        "x SELECT {3+}\r\na\0b\r\n".to_owned(),
    ] {
        let mut client = Client::new(&account);
        client.select();
        let answer = client.send(input.as_bytes());
        let shown = &input[..input.len().min(40)];
        assert!(answer.contains("BAD") || answer.contains("NO"), "{shown}: {answer:.200}");
        assert!(answer.len() < 1000, "{shown}: {} bytes", answer.len());
        if client.last != Next::Close {
            client.check("NOOP", "x OK");
        }
    }
}
