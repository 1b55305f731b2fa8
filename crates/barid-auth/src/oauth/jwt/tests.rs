use base64ct::{Base64UrlUnpadded, Encoding as _};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

use super::*;

const NOW: i64 = 1_700_000_000;

fn b64(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Two keys of an issuer, with the ids `ed` and `ec`.
struct Issuer {
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        let ed = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { ed, ec }
    }

    fn keys(&self) -> KeySet {
        let point = self.ec.public_key().as_ref();
        let keys = json!({ "keys": [
            { "kid": "ed", "kty": "OKP", "crv": "Ed25519", "x": b64(self.ed.public_key().as_ref()) },
            { "kid": "ec", "kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) },
        ] });
        KeySet::parse(keys.to_string().as_bytes()).unwrap()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            b64(header.to_string().as_bytes()),
            b64(claims.to_string().as_bytes())
        );
        let signature = match header["alg"].as_str() {
            Some("ES256") => {
                let signed = self.ec.sign(&SystemRandom::new(), signed.as_bytes());
                signed.unwrap().as_ref().to_vec()
            }
            _ => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", b64(&signature))
    }
}

fn claims() -> Value {
    json!({ "iss": "https://id.example.org", "aud": "imap", "exp": NOW + 60, "sub": "7", "email": "ann@example.org" })
}

fn found(keys: &KeySet, token: &str, algorithms: &[Algorithm]) -> Result<String, TokenRefusal> {
    let rules = TokenRules::new("https://id.example.org", "imap", "email").unwrap();
    validate(BearerToken(token), keys, algorithms, &rules, NOW)
}

fn check(header: &Value, expected: Result<&str, TokenRefusal>) {
    let issuer = Issuer::new();
    let token = issuer.token(header, &claims());
    let result = found(&issuer.keys(), &token, &Algorithm::ALL);
    assert_eq!(result.as_deref().map_err(|refusal| *refusal), expected, "{header}");
}

#[test]
fn headers_cannot_weaken_the_check() {
    let good = Ok("ann@example.org");
    check(&json!({ "alg": "EdDSA", "kid": "ed" }), good);
    check(&json!({ "alg": "ES256", "kid": "ec", "typ": "at+jwt" }), good);
    check(&json!({ "alg": "EdDSA" }), good);
    check(
        &json!({ "alg": "EdDSA", "kid": "ed", "jku": "https://evil", "x5u": "x", "jwk": {} }),
        good,
    );
    check(&json!({ "alg": "none", "kid": "ed" }), Err(TokenRefusal::Algorithm));
    check(&json!({ "alg": "None" }), Err(TokenRefusal::Algorithm));
    check(&json!({ "alg": "HS256", "kid": "ed" }), Err(TokenRefusal::Algorithm));
    check(&json!({ "alg": "eddsa", "kid": "ed" }), Err(TokenRefusal::Algorithm));
    check(&json!({ "kid": "ed" }), Err(TokenRefusal::Malformed));
    check(&json!({ "alg": ["EdDSA"] }), Err(TokenRefusal::Malformed));
    // A key is used by its own algorithm only.
    check(&json!({ "alg": "EdDSA", "kid": "ec" }), Err(TokenRefusal::UnknownKey));
    check(&json!({ "alg": "RS256", "kid": "ed" }), Err(TokenRefusal::UnknownKey));
    check(&json!({ "alg": "EdDSA", "kid": "other" }), Err(TokenRefusal::UnknownKey));
    check(&json!({ "alg": "EdDSA", "kid": 7 }), Err(TokenRefusal::Malformed));
    check(&json!({ "alg": "EdDSA", "kid": "ed", "crit": ["exp"] }), Err(TokenRefusal::Critical));
    check(
        &json!({ "alg": "EdDSA", "kid": "ed", "typ": "logout+jwt" }),
        Err(TokenRefusal::Malformed),
    );
    check(
        &json!({ "alg": "EdDSA", "kid": "ed", "b64": false, "crit": ["b64"] }),
        Err(TokenRefusal::Critical),
    );
}

#[test]
fn changed_tokens_are_refused() {
    let issuer = Issuer::new();
    let keys = issuer.keys();
    let token = issuer.token(&json!({ "alg": "EdDSA", "kid": "ed" }), &claims());
    let all = &Algorithm::ALL[..];
    assert!(found(&keys, &token, all).is_ok());
    assert_eq!(found(&keys, &token, &[Algorithm::Rs256]), Err(TokenRefusal::Algorithm));
    let parts: Vec<&str> = token.split('.').collect();
    let mut other = claims();
    other["email"] = json!("bob@example.org");
    let other = b64(other.to_string().as_bytes());
    let changed = format!("{}.{other}.{}", parts[0], parts[2]);
    assert_eq!(found(&keys, &changed, all), Err(TokenRefusal::Signature));
    let none = format!("{}.{}.", parts[0], parts[1]);
    assert_eq!(found(&keys, &none, all), Err(TokenRefusal::Signature));
    for bad in ["", ".", "..", "a.b.c", &token[1..], &format!("{token}.x"), &format!("{token}=")] {
        let refusal = found(&keys, bad, all).unwrap_err();
        assert!(matches!(refusal, TokenRefusal::Malformed | TokenRefusal::Signature), "{bad}");
    }
    // Signed by somebody else.
    assert_eq!(
        found(
            &Issuer { ed: Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap(), ..Issuer::new() }
                .keys(),
            &token,
            all
        ),
        Err(TokenRefusal::Signature)
    );
}

#[test]
fn claims_count_after_the_signature() {
    let issuer = Issuer::new();
    let keys = issuer.keys();
    let mut expired = claims();
    expired["exp"] = json!(NOW - 3600);
    let token = issuer.token(&json!({ "alg": "EdDSA", "kid": "ed" }), &expired);
    assert_eq!(found(&keys, &token, &Algorithm::ALL), Err(TokenRefusal::Expired));
    let not_object = issuer.token(&json!({ "alg": "EdDSA", "kid": "ed" }), &json!([1]));
    assert_eq!(found(&keys, &not_object, &Algorithm::ALL), Err(TokenRefusal::Malformed));
}

/// The payload of the examples of RFC 7515.
const JOE: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// Checks that the signature of an example is right, and that one of another text is not: the
/// refusal is one of the claims, which have no audience or are not JSON.
fn check_example(key: &str, token: &str, claims: TokenRefusal) {
    let keys = KeySet::parse(format!("{{\"keys\":[{{{key}}}]}}").as_bytes()).unwrap();
    let rules = TokenRules::new("joe", "imap", "sub").unwrap();
    let found = |token: &str| {
        validate(BearerToken(token), &keys, &Algorithm::ALL, &rules, 1_300_819_000).unwrap_err()
    };
    assert_eq!(found(token), claims, "{token}");
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let changed = format!("{signed}.{first}{}", &signature[1..]);
    assert_eq!(found(&changed), TokenRefusal::Signature, "{changed}");
}

#[test]
fn the_examples_of_the_rfcs_are_verified() {
    // RFC 7515 A.2, A.3; RFC 8037 A.4.
    check_example(
        r#""kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB""#,
        &format!(
            "eyJhbGciOiJSUzI1NiJ9.{JOE}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
        ),
        TokenRefusal::Audience,
    );
    check_example(
        r#""kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#,
        &format!(
            "eyJhbGciOiJFUzI1NiJ9.{JOE}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
        ),
        TokenRefusal::Audience,
    );
    check_example(
        r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#,
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        TokenRefusal::Malformed,
    );
}
