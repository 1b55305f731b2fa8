//! Whole exchanges of every mechanism.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use barid_auth::base::Refusal;
use barid_auth::limiter::{LimiterOptions, SharedLimiter};
use barid_auth::oauth::{BearerToken, TokenCheck, TokenRefusal};
use barid_auth::sasl::{Channel, Exchange, Failure, Gate, Identity, Mechanism, SaslService, Step};
use barid_auth::scheme::{Scheme, make_hash};
use barid_auth::{Error, UserName};
use barid_vfs::{Host as _, MemVfs};

use crate::world::{ScramClient, name, passwd_file};

/// Tokens that are the name of their mailbox; `down` stands for an issuer that does not answer.
#[derive(Debug)]
struct NameTokens;

impl TokenCheck for NameTokens {
    fn check(
        &self,
        token: BearerToken<'_>,
    ) -> barid_auth::Result<std::result::Result<String, TokenRefusal>> {
        match token.0 {
            "down" => Err(Error::Unavailable { what: "issuer".into(), why: "down".into() }),
            "bad" => Ok(Err(TokenRefusal::Signature)),
            "old" => Ok(Err(TokenRefusal::Expired)),
            name => Ok(Ok(name.to_owned())),
        }
    }
}

fn service(text: &str) -> SaslService {
    let (vfs, base) = passwd_file(text);
    SaslService {
        tokens: Some(Arc::new(NameTokens)),
        masters: BTreeSet::from([name("master")]),
        ..SaslService::new(Arc::new(base), vfs)
    }
}

fn plain_service() -> SaslService {
    service(
        "ann:{PLAIN}secret\nbob:{PLAIN}other\nmaster:{PLAIN}master\nlocal:{PLAIN}x::::::allow_nets=local\nlocked:!\n",
    )
}

fn scram_service() -> SaslService {
    let hash = |password: &str| {
        make_hash(Scheme::ScramSha256, password.as_bytes(), &MemVfs::new()).unwrap()
    };
    service(&format!("ann:{}\nmaster:{}\nlocked:!\n", hash("secret"), hash("master")))
}

fn tls() -> Channel {
    Channel {
        peer: Some(IpAddr::from([192, 0, 2, 1])),
        is_private: true,
        tls_exporter: Some(vec![1; 32]),
        tls_server_end_point: Some(vec![2; 32]),
    }
}

/// Sends messages and returns the last step; all before it must be challenges.
fn run(service: SaslService, channel: Channel, mechanism: Mechanism, messages: &[&[u8]]) -> Step {
    let (first, rest) = messages.split_first().unwrap();
    let service = Arc::new(service);
    let (mut exchange, mut step) = Exchange::start(service, channel, mechanism, Some(first));
    for message in rest {
        assert!(matches!(step, Step::Challenge(_)), "{step:?}");
        step = exchange.respond(message);
    }
    if !matches!(step, Step::Challenge(_)) {
        let after = exchange.respond(b"");
        assert!(matches!(after, Step::Failed(Failure::Malformed(_))), "{after:?}");
    }
    step
}

fn done(step: Step) -> Identity {
    match step {
        Step::Done(identity) => *identity,
        other => panic!("{other:?}"),
    }
}

fn refusal(step: Step) -> Refusal {
    match step {
        Step::Failed(Failure::Credentials(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn plain(message: &[u8]) -> Step {
    run(plain_service(), tls(), Mechanism::Plain, &[message])
}

#[test]
fn plain_logs_in() {
    let identity = done(plain(b"\0ann\0secret"));
    assert_eq!((identity.user.name, identity.login), (name("ann"), name("ann")));
    assert_eq!(done(plain(b"ann\0ann\0secret")).login, name("ann"));
    assert_eq!(done(plain(b"ANN\0Ann\0secret")).login, name("ann"));
    assert_eq!(refusal(plain(b"\0ann\0other")), Refusal::WrongPassword);
    assert_eq!(refusal(plain(b"\0ann\0")), Refusal::WrongPassword);
    assert_eq!(refusal(plain(b"\0carl\0secret")), Refusal::UnknownUser);
    assert_eq!(refusal(plain(b"\0a/../b\0secret")), Refusal::UnknownUser);
    assert_eq!(refusal(plain(b"\0\0secret")), Refusal::UnknownUser);
    assert_eq!(refusal(plain(b"\0locked\0!")), Refusal::Locked);
    assert_eq!(refusal(plain(b"\0local\0x")), Refusal::Address);
    for bad in [&b""[..], b"ann", b"\0ann", b"\0ann\0secret\0", b"\0\0\0\0"] {
        let step = plain(bad);
        assert!(matches!(step, Step::Failed(Failure::Malformed(_))), "{step:?}");
    }
    let long = vec![b'x'; 20_000];
    assert!(matches!(plain(&long), Step::Failed(Failure::Malformed(_))));
}

#[test]
fn only_masters_act_for_others() {
    let identity = done(plain(b"ann\0master\0master"));
    assert_eq!((identity.user.name, identity.login), (name("ann"), name("master")));
    assert!(matches!(plain(b"bob\0ann\0secret"), Step::Failed(Failure::Authorization)));
    // Only after the password was right.
    assert_eq!(refusal(plain(b"bob\0ann\0wrong")), Refusal::WrongPassword);
    assert_eq!(refusal(plain(b"carl\0master\0master")), Refusal::UnknownUser);
}

#[test]
fn clients_learn_nothing_of_users() {
    let steps = [
        plain(b"\0ann\0wrong"),
        plain(b"\0carl\0wrong"),
        plain(b"\0locked\0x"),
        plain(b"\0local\0x"),
    ];
    for step in steps {
        let Step::Failed(failure) = step else { panic!("{step:?}") };
        assert_eq!(failure.response(), ("AUTHENTICATIONFAILED", "Authentication failed"));
        assert!(failure.is_guess());
    }
}

#[test]
fn login_asks_for_name_and_password() {
    let service = Arc::new(plain_service());
    let (mut exchange, step) = Exchange::start(service, tls(), Mechanism::Login, None);
    assert!(matches!(step, Step::Challenge(challenge) if challenge == b"Username:"));
    let step = exchange.respond(b"ann");
    assert!(matches!(step, Step::Challenge(challenge) if challenge == b"Password:"));
    assert_eq!(exchange.name(), Some(&name("ann")));
    assert_eq!(done(exchange.respond(b"secret")).mechanism, Mechanism::Login);
    let login = |messages: &[&[u8]]| run(plain_service(), tls(), Mechanism::Login, messages);
    assert_eq!(done(login(&[b"ann", b"secret"])).login, name("ann"));
    assert_eq!(refusal(login(&[b"ann", b"wrong"])), Refusal::WrongPassword);
    assert_eq!(refusal(login(&[b"carl", b"wrong"])), Refusal::UnknownUser);
    let step = login(&[b"ann", b"secret\0x"]);
    assert!(matches!(step, Step::Failed(Failure::Malformed(_))), "{step:?}");
}

#[test]
fn nothing_is_offered_in_clear() {
    let clear = Channel { is_private: false, ..tls() };
    let service = scram_service();
    assert_eq!(service.offered(&clear), []);
    assert_eq!(service.offered(&tls()), Mechanism::ALL);
    let plain = Channel { tls_exporter: None, tls_server_end_point: None, ..tls() };
    assert_eq!(service.offered(&plain), Mechanism::ALL[1..]);
    let without_keys = plain_service();
    assert_eq!(without_keys.offered(&tls()), Mechanism::ALL[2..]);
    let step = run(plain_service(), clear.clone(), Mechanism::Plain, &[b"\0ann\0secret"]);
    assert!(matches!(step, Step::Failed(Failure::NotOffered)), "{step:?}");
    let step = run(plain_service(), tls(), Mechanism::ScramSha256, &[b"n,,n=ann,r=x"]);
    assert!(matches!(step, Step::Failed(Failure::NotOffered)), "{step:?}");
    let allowed = SaslService { allows_clear: true, ..plain_service() };
    assert_eq!(done(run(allowed, clear, Mechanism::Plain, &[b"\0ann\0secret"])).login, name("ann"));
    let disabled = BTreeSet::from([Mechanism::Login, Mechanism::Xoauth2]);
    let disabled = SaslService { disabled, ..plain_service() };
    assert_eq!(disabled.offered(&tls()), [Mechanism::OauthBearer, Mechanism::Plain]);
}

/// Runs SCRAM; returns the last step.
fn scram(mechanism: Mechanism, channel: Channel, client: &ScramClient<'_>) -> Step {
    let service = Arc::new(scram_service());
    let (mut exchange, step) = Exchange::start(service, channel, mechanism, None);
    assert!(matches!(&step, Step::Challenge(challenge) if challenge.is_empty()));
    let step = exchange.respond(client.first().as_bytes());
    let Step::Challenge(server_first) = step else { return step };
    let (last, expected) = client.last(std::str::from_utf8(&server_first).unwrap());
    let step = exchange.respond(last.as_bytes());
    let Step::Challenge(server_final) = step else { return step };
    assert_eq!(String::from_utf8(server_final).unwrap(), expected);
    exchange.respond(b"")
}

const ANN: ScramClient<'_> =
    ScramClient { user: "ann", password: "secret", header: "n,,", binding: b"" };

#[test]
fn scram_logs_in() {
    let step = scram(Mechanism::ScramSha256, tls(), &ANN);
    assert_eq!(done(step).login, name("ann"));
    let wrong = ScramClient { password: "wrong", ..ANN };
    let step = scram(Mechanism::ScramSha256, tls(), &wrong);
    assert_eq!(refusal(step), Refusal::WrongPassword);
    for (user, expected) in [("carl", Refusal::UnknownUser), ("locked", Refusal::Locked)] {
        let step = scram(Mechanism::ScramSha256, tls(), &ScramClient { user, ..ANN });
        assert_eq!(refusal(step), expected);
    }
    let master = ScramClient { user: "master", password: "master", header: "n,a=ann,", ..ANN };
    let identity = done(scram(Mechanism::ScramSha256, tls(), &master));
    assert_eq!((identity.user.name, identity.login), (name("ann"), name("master")));
    let other = ScramClient { header: "n,a=master,", ..ANN };
    let step = scram(Mechanism::ScramSha256, tls(), &other);
    assert!(matches!(step, Step::Failed(Failure::Authorization)), "{step:?}");
}

fn is_binding_failure(step: &Step) -> bool {
    matches!(step, Step::Failed(Failure::Binding(_)))
}

#[test]
fn scram_is_bound_to_its_channel() {
    let plus = Mechanism::ScramSha256Plus;
    for (header, binding) in [("p=tls-exporter,,", [1; 32]), ("p=tls-server-end-point,,", [2; 32])]
    {
        let client = ScramClient { header, binding: &binding, ..ANN };
        assert_eq!(done(scram(plus, tls(), &client)).mechanism, plus);
        // Somebody in the middle has another channel to the server than to the client.
        let other = ScramClient { binding: &[3; 32], ..client };
        assert!(is_binding_failure(&scram(plus, tls(), &other)));
    }
    for header in ["n,,", "y,,", "p=tls-unique,,", "p=x,,"] {
        let client = ScramClient { header, ..ANN };
        assert!(is_binding_failure(&scram(plus, tls(), &client)), "{header}");
    }
    let client = ScramClient { header: "p=tls-exporter,,", binding: &[1; 32], ..ANN };
    assert!(is_binding_failure(&scram(Mechanism::ScramSha256, tls(), &client)));
    // RFC 5929: without the data there is no such binding.
    let exporter_only = Channel { tls_server_end_point: None, ..tls() };
    let client = ScramClient { header: "p=tls-server-end-point,,", binding: b"", ..ANN };
    assert!(is_binding_failure(&scram(plus, exporter_only, &client)));
}

#[test]
fn a_downgrade_of_scram_is_noticed() {
    let client = ScramClient { header: "y,,", ..ANN };
    assert!(is_binding_failure(&scram(Mechanism::ScramSha256, tls(), &client)));
    let unbound = Channel { tls_exporter: None, tls_server_end_point: None, ..tls() };
    assert_eq!(done(scram(Mechanism::ScramSha256, unbound, &client)).login, name("ann"));
    // A header that was changed on the way: the client says what it sent in its last message.
    let service = Arc::new(scram_service());
    let first = ANN.first().replace("n,,", "y,,");
    let unbound = Channel { tls_exporter: None, tls_server_end_point: None, ..tls() };
    let mechanism = Mechanism::ScramSha256;
    let (mut exchange, step) = Exchange::start(service, unbound, mechanism, Some(first.as_bytes()));
    let Step::Challenge(server_first) = step else { panic!("{step:?}") };
    let (last, _) = ANN.last(std::str::from_utf8(&server_first).unwrap());
    assert!(is_binding_failure(&exchange.respond(last.as_bytes())));
}

#[test]
fn unknown_users_of_scram_look_like_others() {
    let server_first = |user: &str| {
        let first = ScramClient { user, ..ANN }.first();
        let service = Arc::new(scram_service());
        let (_, step) =
            Exchange::start(service, tls(), Mechanism::ScramSha256, Some(first.as_bytes()));
        let Step::Challenge(challenge) = step else { panic!("{step:?}") };
        let text = String::from_utf8(challenge).unwrap();
        let (_, salt_and_count) = text.split_once(",s=").unwrap();
        (text.len(), salt_and_count.to_owned())
    };
    let (len, known) = server_first("ann");
    let unknown = server_first("carl");
    // Even from another process with the same secret.
    assert_eq!(server_first("carl"), unknown);
    assert_eq!(server_first("CARL"), unknown);
    assert_eq!(unknown.0, len);
    assert_ne!(unknown.1, known);
    assert_ne!(server_first("dora").1, unknown.1);
    assert!(unknown.1.ends_with(",i=4096"), "{}", unknown.1);
}

#[test]
fn scram_messages_in_another_order_fail() {
    let mechanism = Mechanism::ScramSha256;
    let step = run(scram_service(), tls(), mechanism, &[b"n,,n=ann,r=x", b"n,,n=ann,r=x"]);
    assert!(matches!(step, Step::Failed(Failure::Malformed(_))), "{step:?}");
    let step = run(scram_service(), tls(), mechanism, &[b"n,,n=ann,r=x", b"c=biws,r=x,p=AAAA"]);
    assert!(matches!(step, Step::Failed(Failure::Malformed(_))), "{step:?}");
    let service = Arc::new(scram_service());
    let (mut exchange, step) =
        Exchange::start(service, tls(), mechanism, Some(ANN.first().as_bytes()));
    let Step::Challenge(server_first) = step else { panic!("{step:?}") };
    let (last, _) = ANN.last(std::str::from_utf8(&server_first).unwrap());
    assert!(matches!(exchange.respond(last.as_bytes()), Step::Challenge(_)));
    let step = exchange.respond(last.as_bytes());
    assert!(matches!(step, Step::Failed(Failure::Malformed(_))), "{step:?}");
}

fn bearer(target: &str, token: &str) -> Step {
    let message = format!("n,{target},\x01auth=Bearer {token}\x01\x01");
    run(plain_service(), tls(), Mechanism::OauthBearer, &[message.as_bytes()])
}

#[test]
fn tokens_log_in() {
    assert_eq!(done(bearer("a=ann", "ann")).mechanism, Mechanism::OauthBearer);
    assert_eq!(done(bearer("", "ann")).login, name("ann"));
    // A password that is locked does not matter.
    assert_eq!(done(bearer("", "locked")).login, name("locked"));
    let identity = done(bearer("a=ann", "master"));
    assert_eq!((identity.user.name, identity.login), (name("ann"), name("master")));
    let message = b"user=ann\x01auth=Bearer ann\x01\x01";
    let step = run(plain_service(), tls(), Mechanism::Xoauth2, &[message]);
    assert_eq!(done(step).mechanism, Mechanism::Xoauth2);
    let step = bearer("", "down");
    assert!(matches!(step, Step::Failed(Failure::Unavailable(_))), "{step:?}");
}

/// Checks the reason that the client gets, and the failure after its answer.
fn check_refused(mechanism: Mechanism, message: &str, reason: &str, failure: &str, is_guess: bool) {
    let service = Arc::new(plain_service());
    let initial = Some(message.as_bytes());
    let (mut exchange, step) = Exchange::start(service, tls(), mechanism, initial);
    let Step::Challenge(challenge) = step else { panic!("{message:?}: {step:?}") };
    assert_eq!(String::from_utf8(challenge).unwrap(), reason, "{message:?}");
    let Step::Failed(found) = exchange.respond(b"\x01") else { panic!("{message:?}") };
    assert_eq!((found.to_string().as_str(), found.is_guess()), (failure, is_guess), "{message:?}");
}

#[test]
fn refused_tokens_get_a_reason() {
    let rfc = Mechanism::OauthBearer;
    let token = |target: &str, token: &str| format!("n,{target},\x01auth=Bearer {token}\x01\x01");
    let invalid = r#"{"scope":"mail","status":"invalid_token"}"#;
    check_refused(rfc, &token("", "bad"), invalid, "token: its signature is wrong", true);
    check_refused(rfc, &token("", "old"), invalid, "token: expired", false);
    check_refused(rfc, &token("", "carl"), invalid, "unknown user", true);
    let other = "right credentials, but the user may not act for another";
    check_refused(rfc, &token("a=bob", "ann"), invalid, other, true);
    let mailbox = "token: it names no mailbox, or one that cannot exist";
    check_refused(rfc, &token("", ".."), invalid, mailbox, true);
    let request = r#"{"scope":"mail","status":"invalid_request"}"#;
    check_refused(rfc, "x", request, "the client sent a message without a valid GS2 header", true);
    let xoauth2 = "user=ann\x01auth=Bearer bad\x01\x01";
    let invalid = r#"{"schemes":"bearer","scope":"mail","status":"401"}"#;
    check_refused(Mechanism::Xoauth2, xoauth2, invalid, "token: its signature is wrong", true);
}

/// A gate that is closed for one user.
#[derive(Debug)]
struct ClosedFor(UserName);

impl Gate for ClosedFor {
    fn delay(&self, _: Option<IpAddr>, user: &UserName) -> Duration {
        if *user == self.0 { Duration::from_secs(7) } else { Duration::ZERO }
    }
}

#[test]
fn a_closed_gate_comes_before_the_password() {
    let gated = |text| {
        let gate: Option<Arc<dyn Gate>> = Some(Arc::new(ClosedFor(name("ann"))));
        SaslService { gate, ..service(text) }
    };
    let text = "ann:{PLAIN}secret\nbob:{PLAIN}secret\n";
    let step = run(gated(text), tls(), Mechanism::Plain, &[b"\0ann\0secret"]);
    let Step::Failed(failure) = step else { panic!("{step:?}") };
    assert!(matches!(failure, Failure::Delayed(delay) if delay == Duration::from_secs(7)));
    assert!(!failure.is_guess());
    let step = run(gated(text), tls(), Mechanism::Plain, &[b"\0bob\0secret"]);
    assert_eq!(done(step).login, name("bob"));
}

#[test]
fn guesses_close_the_gate() {
    let vfs = Arc::new(MemVfs::new());
    let options = LimiterOptions { user_free: 2, ..LimiterOptions::default() };
    let limiter = Arc::new(SharedLimiter::new(options, Arc::<MemVfs>::clone(&vfs)));
    let gate: Arc<dyn Gate> = Arc::<SharedLimiter>::clone(&limiter);
    let service = Arc::new(SaslService { gate: Some(gate), ..plain_service() });
    let peer = tls().peer;
    let attempt = |message: &[u8]| {
        let service = Arc::clone(&service);
        let (exchange, step) = Exchange::start(service, tls(), Mechanism::Plain, Some(message));
        match &step {
            Step::Done(identity) => limiter.succeeded(peer, &identity.login),
            Step::Failed(failure) if failure.is_guess() => limiter.failed(peer, exchange.name()),
            _ => {}
        }
        step
    };
    for _ in 0..3 {
        assert_eq!(refusal(attempt(b"\0ann\0wrong")), Refusal::WrongPassword);
    }
    // The right password does not help now, and refused attempts do not lengthen the delay.
    for _ in 0..3 {
        let step = attempt(b"\0ann\0secret");
        let Step::Failed(Failure::Delayed(delay)) = step else { panic!("{step:?}") };
        assert_eq!(delay, options.delay);
    }
    vfs.sleep(options.delay);
    assert_eq!(done(attempt(b"\0ann\0secret")).login, name("ann"));
}

#[test]
fn nothing_prints_a_password() {
    let service = Arc::new(plain_service());
    let (mut exchange, _) =
        Exchange::start(Arc::clone(&service), tls(), Mechanism::Login, Some(b"ann"));
    let step = exchange.respond(b"tanstaafl");
    let printed = format!("{service:?} {exchange:?} {step:?}");
    assert!(!printed.contains("tanstaafl") && !printed.contains("secret"), "{printed}");
}
