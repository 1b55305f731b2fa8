//! Authentication: messages of SASL and the lines that they come in, passwd-files and tokens.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use barid_auth::base::{LineProblem, ParseOptions, StaticUsers, parse};
use barid_auth::oauth::{
    Algorithm, BearerToken, KeySet, TokenCheck, TokenRefusal, TokenRules, validate,
};
use barid_auth::sasl::{Channel, Exchange, Mechanism, SaslService, Step, wire};
use barid_auth::scheme::{Password, Scheme, make_scram};
use barid_auth::{NameRules, Secret, Template, User, UserName};
use barid_vfs::MemVfs;

/// A time at which the seeds of tokens are valid, in seconds of Unix time.
const NOW: i64 = 1_300_819_000;
/// The separator of the messages of an exchange in an input.
const BETWEEN: u8 = b'\n';
/// The most messages of an exchange that are sent.
const MESSAGES_MAX: usize = 6;

/// Tokens that are the name of their mailbox.
#[derive(Debug)]
struct NameTokens;

impl TokenCheck for NameTokens {
    fn check(&self, token: BearerToken<'_>) -> barid_auth::Result<Result<String, TokenRefusal>> {
        let is_name = token.0.len() < 20;
        Ok(if is_name { Ok(token.0.to_owned()) } else { Err(TokenRefusal::Signature) })
    }
}

fn name(text: &str) -> UserName {
    NameRules::default().name(text.as_bytes()).expect("because it is a name")
}

static SERVICE: LazyLock<Arc<SaslService>> = LazyLock::new(|| {
    let vfs = MemVfs::new();
    let users = ["ann", "root"].map(|user| User::named(name(user)));
    let base = StaticUsers::new(users, &Secret::from(&b"secret"[..]), &vfs);
    let base = base.expect("because memory has random bytes");
    Arc::new(SaslService {
        tokens: Some(Arc::new(NameTokens)),
        masters: BTreeSet::from([name("root")]),
        ..SaslService::new(Arc::new(base), Arc::new(vfs))
    })
});

/// The messages of an exchange, after a byte that chooses the mechanism.
pub(crate) fn sasl(bytes: &[u8]) {
    let Some((choice, messages)) = bytes.split_first() else { return };
    let mechanism = Mechanism::ALL[usize::from(*choice) % Mechanism::ALL.len()];
    let channel = Channel {
        is_private: true,
        tls_exporter: Some(vec![1; 32]),
        tls_server_end_point: Some(vec![2; 32]),
        ..Channel::default()
    };
    let mut messages = messages.split(|byte| *byte == BETWEEN).take(MESSAGES_MAX);
    let initial = messages.next().filter(|message| !message.is_empty());
    let (mut exchange, mut step) =
        Exchange::start(Arc::clone(&SERVICE), channel, mechanism, initial);
    for message in messages {
        match &step {
            Step::Challenge(challenge) => assert!(!challenge.contains(&b'\n')),
            // A message after the end fails, whatever it is.
            Step::Done(_) | Step::Failed(_) => {
                assert!(matches!(exchange.respond(message), Step::Failed(_)));
                break;
            }
        }
        step = exchange.respond(message);
    }
    let sent = String::from_utf8_lossy(bytes);
    match step {
        Step::Done(identity) => {
            let is_bearer = matches!(mechanism, Mechanism::OauthBearer | Mechanism::Xoauth2);
            assert!(is_bearer || sent.contains("secret"), "logged in without a password");
            let may_act = identity.login == identity.user.name || identity.login == name("root");
            assert!(may_act, "{} acts for {}", identity.login, identity.user.name);
        }
        Step::Failed(failure) => {
            assert!(!failure.response().1.contains('\n'));
            assert!(!failure.to_string().contains('\n'), "a log line has one line");
        }
        Step::Challenge(_) => {}
    }
}

pub(crate) fn sasl_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 12] = [
        b"\x00p=tls-exporter,,n=ann,r=abc\nc=cD10bHMtZXhwb3J0ZXIsLA==,r=abc,p=AAAA\n",
        b"\x00p=tls-server-end-point,a=ann,n=ann,r=abc,x=y\nc=biws,r=abc,x=y,p=AAAA\n",
        b"\x01n,,n=ann,r=rOprNGfwEbeRWgbNEkqO\nc=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=\n",
        b"\x01y,a=x=2Cy=3D,n=ann=2C,r=abc\nc=eSws,r=abc,p=AAAA\n\n",
        b"\x02n,a=ann,\x01host=x\x01port=143\x01auth=Bearer ann\x01\x01",
        b"\x02n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01\n\x01",
        b"\x03user=ann\x01auth=Bearer ann\x01\x01",
        b"\x03user=ann\x01auth=Bearer root\x01\x01\n",
        b"\x04\0ann\0secret",
        b"\x04ann\0root\0secret\n",
        b"\x05ann\nsecret\n",
        b"\x05\nann\nsecret\n\n",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}

/// A line of AUTHENTICATE.
pub(crate) fn sasl_line(bytes: &[u8]) {
    for decoded in [wire::decode_line(bytes), wire::decode_initial(bytes)] {
        let Ok(message) = decoded else { continue };
        // There is one form of each message only.
        let encoded = wire::encode(&message);
        assert!(encoded.as_bytes() == bytes || message.is_empty());
    }
}

pub(crate) fn sasl_line_seeds() -> Vec<Vec<u8>> {
    ["AGFubgBzZWNyZXQ=", "bixhPWFubiwBYXV0aD1CZWFyZXIgeAEB", "*", "=", "", "VXNlcm5hbWU6"]
        .map(|line| line.as_bytes().to_vec())
        .to_vec()
}

/// A passwd-file.
pub(crate) fn passwd_file(bytes: &[u8]) {
    let rules = NameRules::default();
    let options = ParseOptions {
        rules: &rules,
        default_scheme: Scheme::Crypt,
        uid_of: &|name| (name == "vmail").then_some(5000),
        gid_of: &|name| (name == "mail").then_some(8),
    };
    let file = parse(bytes, &options);
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let problems = file.problems();
    assert!(file.len() + problems.len() + file.more_problems() <= lines);
    assert!(problems.is_sorted_by_key(|problem| problem.line));
    for problem in problems {
        let text = problem.to_string();
        let has_field = matches!(problem.kind, LineProblem::Variable { .. });
        let is_named = has_field || problem.user.contains("secret");
        assert!(is_named || !text.contains("secret"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let first = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let Some(name) = rules.name(first) else { continue };
        for peer in [None, Some([192, 0, 2, 1].into()), Some([0_u16; 8].into())] {
            if let Ok(Ok(user)) = file.user(&name, peer) {
                assert_eq!(user.name, name);
                assert_ne!((user.uid, user.gid), (Some(0), Some(0)));
            }
        }
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(template) = Template::parse(&text) {
        drop(template.expand(&name("ann@example.org"), Some("/home/ann")));
    }
    let _ = Password::parse(bytes, Scheme::Crypt);
}

pub(crate) fn passwd_file_seeds() -> Vec<Vec<u8>> {
    let iterations = NonZeroU32::new(1).expect("because it is not 0");
    let scram = make_scram(b"x", iterations, &MemVfs::new());
    let scram = scram.expect("because memory has random bytes");
    let text = format!(
        "# comment\nann:{{PLAIN}}secret:1000:1001:Ann:/home/ann:/bin/sh:userdb_mail=maildir:~/m userdb_quota_rule=*:storage=1G\r\n\
         bob:$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1:vmail:mail::/v/%n::allow_nets=10.0.0.0/8,local,2001:db8::/32\n\
         carl@example.org:{scram}::::::userdb_home=/v/%d/%n userdb_mail=mbox:%h/%Lu%%\n\
         dora:$2y$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK:::::\n\
         dirk:$y$j75$k2XAnEHBqQ1Ct2aMXFKNa/$U714.Qb8scG3K4QGg/xKCyJYcAYtgz2YQfZyHILKld1\n\
         emil:{{ARGON2ID}}$argon2id$v=19$m=65536,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2g::::::nologin\n\
         fred:{{SSHA256.HEX}}00:!\n:x\ngina:!\nhans\n{{PBKDF2}}$1$salt$1$00\n"
    );
    let lines = text.lines().map(|line| line.as_bytes().to_vec());
    let hashes = text.lines().filter_map(|line| line.split(':').nth(1));
    let hashes = hashes.map(|hash| hash.as_bytes().to_vec());
    [text.as_bytes().to_vec()].into_iter().chain(lines).chain(hashes).collect()
}

/// The keys of the examples of RFC 7515 and RFC 8037.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"e","use":"sig","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","key_ops":["verify"],"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp","e":"AQAB"}]}"#;

static KEY_SET: LazyLock<KeySet> =
    LazyLock::new(|| KeySet::parse(KEYS.as_bytes()).expect("because they are keys"));

/// A signed token, or a set of keys.
pub(crate) fn token(bytes: &[u8]) {
    let rules = TokenRules::new("joe", "imap", "sub").expect("because none is empty");
    if let Ok(token) = std::str::from_utf8(bytes) {
        let found = validate(BearerToken(token), &KEY_SET, &Algorithm::ALL, &rules, NOW);
        assert!(found.is_err(), "no seed has an audience");
    }
    if let Ok(keys) = KeySet::parse(bytes) {
        for token in TOKENS {
            drop(validate(BearerToken(token), &keys, &Algorithm::ALL, &rules, NOW));
        }
    }
}

const TOKENS: [&str; 2] = [
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
];

pub(crate) fn token_seeds() -> Vec<Vec<u8>> {
    [KEYS].iter().chain(&TOKENS).map(|seed| seed.as_bytes().to_vec()).collect()
}
