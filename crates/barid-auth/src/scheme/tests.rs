use barid_vfs::MemVfs;

use super::*;

fn parse(text: &str) -> Result<Password, SchemeError> {
    Password::parse(text.as_bytes(), Scheme::Crypt)
}

/// Hashes of `password`, made by Dovecot 2.3.19, by glibc or from the papers of their authors.
const HASHES: &[(&str, &str)] = &[
    ("{PLAIN}Hello world!", "Hello world!"),
    ("{CLEARTEXT}a{b}c", "a{b}c"),
    ("{plain.b64}SGVsbG8gd29ybGQh", "Hello world!"),
    ("{PLAIN.HEX}48656c6C6f", "Hello"),
    // https://www.akkadia.org/drepper/SHA-crypt.txt
    ("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
    (
        "{SHA512-CRYPT}$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "Hello world!",
    ),
    (
        "{CRYPT}$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
        "Hello world!",
    ),
    // https://github.com/openwall/crypt_blowfish, wrapper.c
    ("{BLF-CRYPT}$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"),
    ("{BLF-CRYPT}$2y$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK", "U*U*"),
    ("$2b$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a", "U*U*U"),
    // libxcrypt 4.4.33
    (
        "{CRYPT}$y$j75$k2XAnEHBqQ1Ct2aMXFKNa/$U714.Qb8scG3K4QGg/xKCyJYcAYtgz2YQfZyHILKld1",
        "Hello world!",
    ),
    ("$y$j9T$k2XAnEHBqQ1Ct2aMXFKNa/$39o5wp7xduX2w8qG2IzHqokdj9pOGk73sLyLgG3S/nA", "Hello world!"),
    // RFC 7677 §3, with the keys that belong to its salt.
    (
        "{SCRAM-SHA-256}4096,W22ZaJ0SNY7soEsUEjb6gQ==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        "pencil",
    ),
];

#[test]
fn known_hashes_are_verified() {
    for (hash, password) in HASHES {
        let parsed = parse(hash).unwrap_or_else(|error| panic!("{hash}: {error}"));
        assert!(parsed.verify(password.as_bytes()), "{hash}");
        assert!(!parsed.verify(b"wrong"), "{hash}");
        assert!(!parsed.verify(b""), "{hash}");
        assert!(!parsed.dummy().verify(password.as_bytes()), "{hash}");
        assert_eq!(parsed.dummy().cost(), parsed.cost(), "{hash}");
    }
}

#[test]
fn new_hashes_are_verified() {
    let vfs = MemVfs::new();
    let schemes = [
        Scheme::Argon2id,
        Scheme::Argon2i,
        Scheme::Sha512Crypt,
        Scheme::Sha256Crypt,
        Scheme::BlfCrypt,
        Scheme::ScramSha256,
        Scheme::Ssha512,
        Scheme::Ssha256,
        Scheme::Ssha,
    ];
    for scheme in schemes {
        let text = make_hash(scheme, "p\u{e4}ss word".as_bytes(), &vfs).unwrap();
        assert!(text.starts_with(&format!("{{{}}}", scheme.name())), "{text}");
        let parsed = parse(&text).unwrap();
        assert!(parsed.verify("p\u{e4}ss word".as_bytes()), "{text}");
        assert!(!parsed.verify(b"pass word"), "{text}");
        assert_ne!(make_hash(scheme, b"x", &vfs).unwrap(), make_hash(scheme, b"x", &vfs).unwrap());
    }
    assert!(make_hash(Scheme::Plain, b"x", &vfs).is_err());
}

#[test]
fn locked_accounts_have_no_password() {
    for text in ["", "*", "!", "!!", "!$6$x$y", "*LK*", "x", "{PLAIN}", "{CRYPT}", "{CRYPT}!"] {
        let parsed = parse(text).unwrap();
        assert!(parsed.is_locked(), "{text}");
        assert!(!parsed.verify(text.as_bytes()), "{text}");
        assert!(!parsed.verify(b""), "{text}");
    }
}

#[test]
fn unusable_passwords_say_why_and_nothing_of_the_password() {
    let name = |scheme: &str| SchemeError::Unknown { scheme: scheme.to_owned() };
    assert_eq!(parse("{FOO}bar").unwrap_err(), name("FOO"));
    assert_eq!(parse("{my secret}").unwrap_err(), name("..."));
    assert_eq!(parse("{secret").unwrap_err(), name("..."));
    assert_eq!(parse("{PLAIN.rot13}x").unwrap_err(), name("..."));
    assert_eq!(parse("{MD5-CRYPT}x").unwrap_err(), SchemeError::Weak { scheme: "MD5-CRYPT" });
    assert_eq!(parse("$1$salt$hash").unwrap_err(), SchemeError::Weak { scheme: "MD5-CRYPT" });
    assert_eq!(parse("secret").unwrap_err(), SchemeError::Crypt);
    assert_eq!(parse("$7$j9T$x$y").unwrap_err(), SchemeError::Crypt);
    let malformed = [
        "{SSHA256}YWJj",
        "{SHA256}YWJj",
        "{SSHA}****",
        "$6$salt$short",
        "$6$$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "$6$rounds=10$salt$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWE!5",
        "$y$79T$k2XAnEHBqQ1Ct2aMXFKNa/$39o5wp7xduX2w8qG2IzHqokdj9pOGk73sLyLgG3S/nA",
        "$y$j9T$k2XAnEHBqQ1Ct2aMXFKNa/$",
        "$y$j9T$k2XAnEHBqQ1Ct2aMXFKNa/$39o5",
        "$y$j9T.1$k2XAnEHBqQ1Ct2aMXFKNa/$39o5wp7xduX2w8qG2IzHqokdj9pOGk73sLyLgG3S/nA",
        "$y$***$k2XAnEHBqQ1Ct2aMXFKNa/$39o5wp7xduX2w8qG2IzHqokdj9pOGk73sLyLgG3S/nA",
        "$2b$05$XXXX",
        "$2b$03$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a",
        "$2x$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a",
        "{ARGON2ID}$argon2id$v=19$m=65536,t=3$c2FsdHNhbHQ$aGFzaGhhc2g",
        "{ARGON2ID}$argon2d$v=19$m=65536,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
        "{PBKDF2}$1$salt$0$00",
        "{SCRAM-SHA-256}4096,x",
        "{PLAIN.b64}***",
    ];
    for text in malformed {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, SchemeError::Malformed { .. }), "{text}: {error}");
    }
    let costly = [
        "$6$rounds=999999999$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "$2b$31$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a",
        "$y$jST$k2XAnEHBqQ1Ct2aMXFKNa/$39o5wp7xduX2w8qG2IzHqokdj9pOGk73sLyLgG3S/nA",
        "$argon2id$v=19$m=4194304,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
        "{SCRAM-SHA-256}4000000000,AA==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        "{PBKDF2}$1$salt$4000000000$00",
    ];
    for text in costly {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, SchemeError::TooCostly { .. }), "{text}: {error}");
    }
}

#[test]
fn nothing_prints_a_password() {
    let parsed = parse("{PLAIN}tanstaafl").unwrap();
    assert_eq!(format!("{parsed:?}"), "Password(..)");
    let keys = parse(HASHES[HASHES.len() - 1].0).unwrap();
    let printed = format!("{:?}", keys.scram().unwrap());
    assert!(printed.contains("Secret(..)") && !printed.contains("WG5d"), "{printed}");
}

#[test]
fn long_passwords_are_refused() {
    let long = "a".repeat(PASSWORD_LEN_MAX);
    let parsed = parse(&format!("{{PLAIN}}{long}")).unwrap();
    assert!(parsed.verify(long.as_bytes()));
    assert!(!parsed.verify(format!("{long}a").as_bytes()));
    assert!(parse(&format!("{{PLAIN}}{long}a")).unwrap().is_locked());
}

#[test]
fn bcrypt_uses_72_bytes() {
    let vfs = MemVfs::new();
    let text = make_hash(Scheme::BlfCrypt, "a".repeat(80).as_bytes(), &vfs).unwrap();
    let parsed = parse(&text).unwrap();
    assert!(parsed.verify("a".repeat(72).as_bytes()));
    assert!(!parsed.verify("a".repeat(71).as_bytes()));
}
