//! Checks of tokens over a fetcher that answers from memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_auth::oauth::{
    BearerToken, Endpoint, HttpFetcher, HttpRequest, HttpResponse, Introspection,
    IntrospectionOptions, Jwks, JwksOptions, TokenCheck, TokenRefusal, TokenRules,
};
use barid_auth::{Error, Result, Secret};
use barid_vfs::{Host, MemVfs};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

/// A fetcher with prepared answers; `None` is none within the time.
#[derive(Debug, Default)]
struct Prepared {
    answers: Mutex<VecDeque<Option<HttpResponse>>>,
    requests: Mutex<Vec<HttpRequest>>,
}

impl HttpFetcher for Prepared {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("because the test prepared an answer for each request");
        answer.ok_or_else(|| Error::Unavailable { what: "issuer".into(), why: "timeout".into() })
    }
}

impl Prepared {
    fn answer(&self, status: u16, body: &str) {
        let response = HttpResponse { status, body: body.as_bytes().to_vec() };
        self.answers.lock().unwrap().push_back(Some(response));
    }

    fn fail(&self) {
        self.answers.lock().unwrap().push_back(None);
    }

    fn left(&self) -> usize {
        self.answers.lock().unwrap().len()
    }
}

const URL: &str = "https://id.example.org/x";

fn rules() -> TokenRules {
    TokenRules::new("https://id.example.org", "imap", "email").unwrap()
}

fn key(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn key_set(seeds: &[u8]) -> String {
    let keys = seeds.iter().map(|seed| {
        let x = Base64UrlUnpadded::encode_string(key(*seed).public_key().as_ref());
        json!({ "kid": seed.to_string(), "kty": "OKP", "crv": "Ed25519", "x": x })
    });
    json!({ "keys": keys.collect::<Vec<_>>() }).to_string()
}

fn token(seed: u8, vfs: &MemVfs) -> String {
    let header = json!({ "alg": "EdDSA", "kid": seed.to_string() }).to_string();
    let expiry = vfs.now().unix_seconds() + 60;
    let claims = json!({
        "iss": "https://id.example.org", "aud": "imap", "exp": expiry, "email": "ann@example.org",
    });
    let part = |text: String| Base64UrlUnpadded::encode_string(text.as_bytes());
    let signed = format!("{}.{}", part(header), part(claims.to_string()));
    let signature = key(seed).sign(signed.as_bytes());
    format!("{signed}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
}

#[test]
fn keys_are_fetched_when_needed() {
    let (vfs, fetcher) = (Arc::new(MemVfs::new()), Arc::new(Prepared::default()));
    let options = JwksOptions::new(Endpoint::new(URL).unwrap(), rules());
    let jwks = Jwks::new(options, Arc::<Prepared>::clone(&fetcher), Arc::<MemVfs>::clone(&vfs));
    let check = |seed| jwks.check(BearerToken(&token(seed, &vfs)));
    let good = || Ok("ann@example.org".to_owned());
    // No answer, then one that is not a key set, then keys. Soon after a failure there is no
    // request.
    let failed = || {
        assert!(check(1).is_err());
        assert!(check(1).is_err());
        vfs.sleep(Duration::from_secs(10));
    };
    fetcher.fail();
    failed();
    fetcher.answer(500, "oops");
    failed();
    fetcher.answer(200, "oops");
    failed();
    fetcher.answer(200, &key_set(&[1]));
    assert_eq!(check(1).unwrap(), good());
    assert_eq!(check(1).unwrap(), good());
    // An unknown key asks again, but not more than once a minute.
    assert_eq!(check(2).unwrap(), Err(TokenRefusal::UnknownKey));
    vfs.sleep(Duration::from_secs(61));
    fetcher.answer(200, &key_set(&[2]));
    assert_eq!(check(2).unwrap(), good());
    for _ in 0..5 {
        assert_eq!(check(1).unwrap(), Err(TokenRefusal::UnknownKey));
    }
    // An issuer that does not answer: a token of an unknown key may be valid later.
    vfs.sleep(Duration::from_secs(61));
    fetcher.fail();
    assert!(check(1).is_err() && check(1).is_err());
    assert_eq!(check(2).unwrap(), good());
    vfs.sleep(Duration::from_secs(10));
    fetcher.answer(200, &key_set(&[2]));
    assert_eq!(check(1).unwrap(), Err(TokenRefusal::UnknownKey));
    // Old keys are fetched again; if that fails, they last a day.
    vfs.sleep(Duration::from_secs(3600));
    fetcher.fail();
    assert_eq!(check(2).unwrap(), good());
    assert_eq!(check(2).unwrap(), good());
    vfs.sleep(Duration::from_secs(24 * 3600));
    fetcher.fail();
    assert!(check(2).is_err());
    fetcher.answer(200, &key_set(&[2]));
    jwks.refresh().unwrap();
    assert_eq!(check(2).unwrap(), good());
    // What is not a token asks nobody.
    assert_eq!(jwks.check(BearerToken("x")).unwrap(), Err(TokenRefusal::Malformed));
    assert_eq!(fetcher.left(), 0);
    assert_eq!(fetcher.requests.lock().unwrap().len(), 10);
}

/// A fetcher whose answer waits until the test ends it.
#[derive(Debug)]
struct Hanging {
    requests: AtomicUsize,
    end: Mutex<Receiver<()>>,
}

impl HttpFetcher for Hanging {
    fn fetch(&self, _: &HttpRequest) -> Result<HttpResponse> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let _ = self.end.lock().unwrap().recv();
        Err(Error::Unavailable { what: "issuer".into(), why: "timeout".into() })
    }
}

#[test]
fn one_thread_waits_for_an_issuer_that_does_not_answer() {
    let (end, ended) = channel();
    let fetcher = Arc::new(Hanging { requests: AtomicUsize::new(0), end: Mutex::new(ended) });
    let vfs = Arc::new(MemVfs::new());
    let options = JwksOptions::new(Endpoint::new(URL).unwrap(), rules());
    let jwks = Jwks::new(options, Arc::<Hanging>::clone(&fetcher), Arc::<MemVfs>::clone(&vfs));
    let check = || jwks.check(BearerToken(&token(1, &vfs)));
    std::thread::scope(|scope| {
        let first = scope.spawn(check);
        while fetcher.requests.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // These return although the first still waits.
        for _ in 0..3 {
            assert!(check().is_err());
        }
        drop(end);
        assert!(first.join().unwrap().is_err());
    });
    assert!(check().is_err());
    assert_eq!(fetcher.requests.load(Ordering::SeqCst), 1);
    vfs.sleep(Duration::from_secs(10));
    assert!(check().is_err());
    assert_eq!(fetcher.requests.load(Ordering::SeqCst), 2);
}

#[test]
fn issuers_are_asked_about_tokens() {
    let (vfs, fetcher) = (Arc::new(MemVfs::new()), Arc::new(Prepared::default()));
    let options = IntrospectionOptions {
        url: Endpoint::new(URL).unwrap(),
        client_id: "barid:1".to_owned(),
        client_secret: Secret::from(&b"s&cret"[..]),
        rules: rules(),
    };
    let check =
        Introspection::new(options, Arc::<Prepared>::clone(&fetcher), Arc::<MemVfs>::clone(&vfs));
    let ask = |answer: serde_json::Value| {
        fetcher.answer(200, &answer.to_string());
        check.check(BearerToken("2YotnFZFEjr1z+CsicMWpAA="))
    };
    let expiry = vfs.now().unix_seconds() + 60;
    let good = json!({ "active": true, "aud": "imap", "exp": expiry, "email": "ann@example.org" });
    assert_eq!(ask(good.clone()).unwrap(), Ok("ann@example.org".to_owned()));
    let with = |claim: &str, value: serde_json::Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        ask(claims).unwrap()
    };
    assert_eq!(with("active", json!(false)), Err(TokenRefusal::Inactive));
    assert_eq!(with("active", json!("true")), Err(TokenRefusal::Inactive));
    assert_eq!(with("iss", json!("https://evil.example.org")), Err(TokenRefusal::Issuer));
    assert_eq!(with("aud", json!("web")), Err(TokenRefusal::Audience));
    assert_eq!(with("exp", json!(expiry - 3600)), Err(TokenRefusal::Expired));
    assert_eq!(ask(json!({ "active": false })).unwrap(), Err(TokenRefusal::Inactive));
    assert!(ask(json!([true])).is_err());
    fetcher.answer(401, "{}");
    assert!(check.check(BearerToken("x")).is_err());
    let requests = fetcher.requests.lock().unwrap();
    let form = requests[0].form.as_ref().unwrap().expose();
    let expected = b"token=2YotnFZFEjr1z%2BCsicMWpAA%3D&token_type_hint=access_token";
    assert_eq!(form.escape_ascii().to_string(), expected.escape_ascii().to_string());
    let authorization = requests[0].authorization.as_ref().unwrap().expose();
    // barid%3A1:s%26cret
    assert_eq!(authorization, b"Basic YmFyaWQlM0ExOnMlMjZjcmV0");
    let printed = format!("{:?} {check:?}", requests[0]);
    assert!(!printed.contains("2Yotn") && !printed.contains("YmFy"), "{printed}");
}
