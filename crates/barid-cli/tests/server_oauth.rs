//! Logins with tokens (OAUTHBEARER, XOAUTH2) in the server of many users, with an issuer on the
//! loopback interface.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barid_testkit::disk::unix_seconds;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};

use crate::test_server::{Client, Server, wait_for};

const ISSUER: &str = "https://id.example.org";

/// A request that the issuer got: its first line, and its body.
type Request = (String, String);

/// An issuer that answers every request with the same text.
struct Issuer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    answer: Arc<Mutex<String>>,
}

impl Issuer {
    fn start(answer: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let answer = Arc::new(Mutex::new(answer.to_string()));
        let (heard, text) = (Arc::clone(&requests), Arc::clone(&answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                heard.lock().unwrap().push(respond(stream, &text.lock().unwrap()));
            }
        });
        Self { address, requests, answer }
    }

    fn set_answer(&self, answer: &Value) {
        *self.answer.lock().unwrap() = answer.to_string();
    }
}

fn respond(stream: TcpStream, answer: &str) -> Request {
    let mut stream = BufReader::new(stream);
    let (mut head, mut len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
        if line.trim_end().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn claims(user: &str) -> Value {
    json!({ "iss": ISSUER, "aud": "mail", "exp": unix_seconds() + 60, "email": user, "active": true })
}

fn oauthbearer(token: &str) -> String {
    STANDARD.encode(format!("n,,\x01auth=Bearer {token}\x01\x01"))
}

fn xoauth2(user: &str, token: &str) -> String {
    STANDARD.encode(format!("user={user}\x01auth=Bearer {token}\x01\x01"))
}

fn log_in(server: &Server, mechanism: &str, message: &str) -> (Client, String) {
    let mut client = server.client();
    let answer = client.command(&format!("AUTHENTICATE {mechanism} {message}"));
    (client, answer)
}

/// Logs in with a token that is refused; returns the reason that the client gets, and the answer.
fn refused(server: &Server, message: &str) -> (Value, String) {
    let mut client = server.client();
    client.send(&format!("t AUTHENTICATE OAUTHBEARER {message}\r\n"));
    let challenge = client.line();
    let reason = challenge.trim_end().strip_prefix("+ ").expect(&challenge);
    let reason = serde_json::from_slice(&STANDARD.decode(reason).unwrap()).unwrap();
    client.send("AQ==\r\n");
    (reason, client.answer("t"))
}

#[test]
fn tokens_are_verified_by_asking_the_issuer() {
    let issuer = Issuer::start(&claims("ann"));
    let server = Server::start_with_files(&[("users/secret", "s3cret\n")], &|path| {
        format!(
            "[users.oauth]\nissuer = \"{ISSUER}\"\naudience = \"mail\"\n\
                 introspection_url = \"http://{}/introspect\"\nclient_id = \"barid\"\n\
                 client_secret_file = \"{}\"\n",
            issuer.address,
            path("users/secret"),
        )
    });
    let greeting = server.client().greeting;
    assert!(greeting.contains("AUTH=OAUTHBEARER AUTH=XOAUTH2"), "{greeting}");
    let (mut ann, answer) = log_in(&server, "OAUTHBEARER", &oauthbearer("abc"));
    assert!(answer.ends_with("Logged in\r\n"), "{answer}: {:#?}", server.log.lock().unwrap());
    ann.ok("SELECT INBOX");
    assert_eq!(server.admin(&["sessions"])[0]["mechanism"], "OAUTHBEARER");
    let (head, body) = issuer.requests.lock().unwrap().pop().unwrap();
    assert!(head.starts_with("POST /introspect HTTP/1.1\r\n"), "{head}");
    let expected = format!("Authorization: Basic {}\r\n", STANDARD.encode("barid:s3cret"));
    assert!(head.contains(&expected), "{head}");
    assert_eq!(body, "token=abc&token_type_hint=access_token");
    let (_, answer) = log_in(&server, "XOAUTH2", &xoauth2("ann", "abc"));
    assert!(answer.ends_with("Logged in\r\n"), "{answer}");
    // A token of Ann does not open the mail of Bob.
    let other = STANDARD.encode("n,a=bob,\x01auth=Bearer abc\x01\x01");
    let (reason, answer) = refused(&server, &other);
    assert_eq!(reason["status"], "invalid_token");
    assert!(answer.contains("t NO [AUTHORIZATIONFAILED]"), "{answer}");
    issuer.set_answer(&json!({ "active": false }));
    let (_, answer) = refused(&server, &oauthbearer("abc"));
    assert!(answer.contains("t NO [AUTHENTICATIONFAILED]"), "{answer}");
    issuer.set_answer(&claims("carl"));
    let (_, answer) = refused(&server, &oauthbearer("abc"));
    assert!(answer.contains("t NO [AUTHENTICATIONFAILED]"), "{answer}");
    ann.ok("NOOP");
}

#[test]
fn signed_tokens_are_verified_by_the_keys_of_the_issuer() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let x = URL_SAFE_NO_PAD.encode(key.der_bytes());
    let keys = json!({ "keys": [{ "kid": "1", "kty": "OKP", "crv": "Ed25519", "x": x }] });
    let issuer = Issuer::start(&keys);
    let server = Server::start_with_files(&[], &|_| {
        format!(
            "[users.oauth]\nissuer = \"{ISSUER}\"\naudience = \"mail\"\n\
             jwks_url = \"http://{}/keys\"\n",
            issuer.address
        )
    });
    // The keys are fetched at the start; until they are there, tokens are refused for a while.
    wait_for("the request", || issuer.requests.lock().unwrap().first().cloned());
    let token = |claims: &Value, key: &KeyPair| {
        let header = json!({ "alg": "EdDSA", "kid": "1" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    };
    let (mut ann, answer) = wait_for("the keys", || {
        let login = log_in(&server, "OAUTHBEARER", &oauthbearer(&token(&claims("ann"), &key)));
        (!login.1.contains("UNAVAILABLE")).then_some(login)
    });
    assert!(answer.ends_with("Logged in\r\n"), "{answer}: {:#?}", server.log.lock().unwrap());
    ann.ok("SELECT INBOX");
    let forger = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let (_, answer) = refused(&server, &oauthbearer(&token(&claims("ann"), &forger)));
    assert!(answer.contains("t NO [AUTHENTICATIONFAILED]"), "{answer}");
    let mut old = claims("ann");
    old["exp"] = (unix_seconds() - 3600).into();
    let (_, answer) = refused(&server, &oauthbearer(&token(&old, &key)));
    assert!(answer.contains("t NO [AUTHENTICATIONFAILED]"), "{answer}");
    assert!(server.has_logged("login_failed"));
}

/// Sends tokens to a server whose issuer accepts connections and never answers, and returns the
/// time that a login with a password takes meanwhile.
fn password_login_beside_tokens(settings: &str, token: &str) -> Duration {
    // The kernel establishes connections although nobody accepts them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let server = Server::start_with_files(&[("users/secret", "s3cret\n")], &|path| {
        format!(
            "[users.oauth]\nissuer = \"{ISSUER}\"\naudience = \"mail\"\n{}",
            settings
                .replace("ADDRESS", &address.to_string())
                .replace("SECRET", &path("users/secret"))
        )
    });
    let mut strangers: Vec<Client> = (0..40).map(|_| server.client()).collect();
    let mut ann = server.client();
    for stranger in &mut strangers {
        stranger.send(&format!("t AUTHENTICATE OAUTHBEARER {}\r\n", oauthbearer(token)));
    }
    // Their tokens arrive before the password.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    ann.ok("LOGIN ann secret");
    let time = start.elapsed();
    // Tokens beyond those that wait for the issuer are refused.
    let denied = strangers.pop().unwrap().answer("t");
    assert!(denied.contains("t NO [UNAVAILABLE]"), "{denied}");
    time
}

#[test]
fn an_issuer_that_does_not_answer_does_not_keep_passwords_waiting() {
    // A request to an issuer lasts 10 seconds.
    let short = Duration::from_secs(7);
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","kid":"1"}"#);
    let token =
        format!("{header}.{}.{}", URL_SAFE_NO_PAD.encode("{}"), URL_SAFE_NO_PAD.encode("x"));
    let by_keys = password_login_beside_tokens("jwks_url = \"http://ADDRESS/keys\"\n", &token);
    let by_asking = password_login_beside_tokens(
        "introspection_url = \"http://ADDRESS/ask\"\nclient_id = \"barid\"\n\
         client_secret_file = \"SECRET\"\n",
        "abc",
    );
    println!("password login: {by_keys:?} with keys, {by_asking:?} with introspection");
    assert!(by_keys < short && by_asking < short, "{by_keys:?} {by_asking:?}");
}
