//! Addresses and groups (RFC 5322 §3.4 and §4.4), in the form of RFC 9051's ENVELOPE.
//!
//! ```text
//! address    = mailbox / group
//! mailbox    = [phrase] "<" [route ":"] addr-spec ">" / addr-spec
//! group      = phrase ":" [mailbox *("," mailbox)] ";"
//! ```
//!
//! A comment after an `addr-spec` counts as its name. Text that is not an address becomes one with
//! a name alone or an empty host, and reading continues after the next comma. Missing texts are
//! empty rather than absent, so that nothing looks like the mark of a group.

use std::borrow::Cow;

use barid_types::Address;

use crate::fields::trim;
use crate::lexer::{Lexed, Lexer};
use crate::limits::ADDRESSES_MAX;
use crate::peers::dovecot;
use crate::plain_address::Plain;
use crate::{Profile, decode_plain, decode_words};

/// Parses a raw address list; keeps the first [`ADDRESSES_MAX`] entries.
///
/// A group is its start (`host` is `None`), its members and its end (`mailbox` and `host` are
/// `None`). Encoded words stay encoded. O(length).
pub fn parse_addresses(raw: &[u8]) -> Vec<Address> {
    let mut addresses = Vec::new();
    visit_addresses(raw, |address| addresses.push(address.to_address()));
    addresses
}

/// Calls `visit` with each address that [`parse_addresses`] returns; does not allocate for
/// addresses of the usual forms.
pub fn visit_addresses(raw: &[u8], mut visit: impl FnMut(AddressRef<'_>)) {
    let mut list = AddressList::new(raw);
    for _ in 0..ADDRESSES_MAX {
        match list.next_plain() {
            Some(plain) => visit(plain),
            None => match list.next() {
                Some(address) => visit(AddressRef::of(&address)),
                None => break,
            },
        }
    }
}

/// A borrowed [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRef<'a> {
    /// The display name.
    pub name: Option<&'a [u8]>,
    /// The obsolete source route (`@a,@b`).
    pub route: Option<&'a [u8]>,
    /// The local part, or the name of a group.
    pub mailbox: Option<&'a [u8]>,
    /// The domain.
    pub host: Option<&'a [u8]>,
}

impl<'a> AddressRef<'a> {
    /// Borrows an address.
    pub fn of(address: &'a Address) -> Self {
        Self {
            name: address.name.as_deref(),
            route: address.route.as_deref(),
            mailbox: address.mailbox.as_deref(),
            host: address.host.as_deref(),
        }
    }

    fn to_address(self) -> Address {
        let owned = |text: Option<&[u8]>| text.map(<[u8]>::to_vec);
        Address {
            name: owned(self.name),
            route: owned(self.route),
            mailbox: owned(self.mailbox),
            host: owned(self.host),
        }
    }
}

/// Returns the local part of the first address, the sort key of FROM, TO and CC (RFC 5256 §3); for
/// a group its name, as in ENVELOPE; the empty string if there is no address.
///
/// Borrows in all usual cases.
pub fn first_mailbox(raw: &[u8]) -> Cow<'_, [u8]> {
    if let Some(plain) = Plain::parse(raw) {
        return Cow::Borrowed(plain.mailbox);
    }
    let first = AddressList::new(raw).next();
    Cow::Owned(first.and_then(|address| address.mailbox).unwrap_or_default())
}

/// Returns [`first_mailbox`] by the rules of another program.
///
/// Dovecot returns `MISSING_MAILBOX` for text that is not an address. c-client's different
/// treatment of such text is not reproduced.
pub fn first_mailbox_as(raw: &[u8], profile: Profile) -> Cow<'_, [u8]> {
    match dovecot_first(raw, profile) {
        Some(first) => Cow::Owned(first.and_then(|address| address.mailbox).unwrap_or_default()),
        None => first_mailbox(raw),
    }
}

/// Returns [`display_name`] by the rules of another program; see [`first_mailbox_as`].
///
/// Dovecot treats a name that is not UTF-8 as broken.
pub fn display_name_as(raw: &[u8], profile: Profile) -> Cow<'_, str> {
    match (dovecot_first(raw, profile), Plain::parse(raw)) {
        (Some(Some(Address { name: Some(name), .. })), _) => Cow::Owned(dovecot::decoded(&name)),
        (Some(first), _) => {
            Cow::Owned(first.as_ref().map(address_display_name).unwrap_or_default())
        }
        (None, Some(Plain { name, .. })) if profile == Profile::Dovecot && !name.is_empty() => {
            Cow::Owned(dovecot::decoded(name))
        }
        _ => display_name(raw),
    }
}

/// Returns the first address by Dovecot's rules, where these may differ from ours.
fn dovecot_first(raw: &[u8], profile: Profile) -> Option<Option<Address>> {
    if profile != Profile::Dovecot || Plain::parse(raw).is_some() {
        return None;
    }
    let mut list = AddressList { profile, ..AddressList::new(raw) };
    Some(list.next())
}

/// Returns the display text of the first address, the sort key of DISPLAYFROM and DISPLAYTO (RFC
/// 5957 §3): its decoded name, else `mailbox@host`; for a group its name; the empty string if there
/// is no address.
///
/// Borrows in all usual cases.
pub fn display_name(raw: &[u8]) -> Cow<'_, str> {
    if let Some(plain) = Plain::parse(raw) {
        return match plain.name {
            b"" => decode_plain(plain.addr_spec),
            name => decode_words(name),
        };
    }
    match AddressList::new(raw).next() {
        Some(address) => Cow::Owned(address_display_name(&address)),
        None => Cow::Borrowed(""),
    }
}

/// Returns the [`display_name`] of a parsed address.
pub fn address_display_name(address: &Address) -> String {
    if let Some(name) = &address.name {
        let name = decode_words(name);
        if !name.is_empty() {
            return name.into_owned();
        }
    }
    let mut text = address.mailbox.clone().unwrap_or_default();
    if let Some(host) = address.host.as_ref().filter(|host| !host.is_empty()) {
        text.push(b'@');
        text.extend_from_slice(host);
    }
    decode_plain(&text).into_owned()
}

/// Reads addresses one by one.
struct AddressList<'a> {
    lexer: Lexer<'a>,
    in_group: bool,
    ended: bool,
    profile: Profile,
}

impl<'a> AddressList<'a> {
    fn new(raw: &'a [u8]) -> Self {
        Self { lexer: Lexer::new(raw), in_group: false, ended: false, profile: Profile::Rfc }
    }

    fn next(&mut self) -> Option<Address> {
        while !self.ended {
            // An unfinished comment hides the rest.
            self.ended = self.lexer.skip_cfws().is_err() || self.lexer.at_end();
            if self.ended {
                break;
            }
            if self.profile == Profile::Rfc && self.lexer.eat(b',') {
                continue;
            }
            if self.lexer.eat(b';') {
                if std::mem::take(&mut self.in_group) {
                    return Some(Address::default());
                }
                continue;
            }
            let address = self.group_start().unwrap_or_else(|| self.mailbox());
            return Some(address);
        }
        std::mem::take(&mut self.in_group).then(Address::default)
    }

    /// Returns the next address if it has a usual form; otherwise reads nothing.
    fn next_plain(&mut self) -> Option<AddressRef<'a>> {
        if self.ended {
            return None;
        }
        let start = self.lexer.position();
        self.lexer.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','));
        let Some(plain) = Plain::parse(self.lexer.rest()) else {
            self.lexer.seek(start);
            return None;
        };
        self.lexer.seek(self.lexer.position() + plain.len);
        Some(AddressRef {
            name: Some(plain.name).filter(|name| !name.is_empty()),
            route: None,
            mailbox: Some(plain.mailbox),
            host: Some(plain.host),
        })
    }

    /// Reads `phrase ":"`; groups do not nest.
    fn group_start(&mut self) -> Option<Address> {
        if self.in_group {
            return None;
        }
        let start = self.lexer.position();
        let mut name = Vec::new();
        if self.lexer.phrase(&mut name).is_ok() && self.lexer.eat(b':') {
            self.in_group = true;
            return Some(Address { mailbox: Some(name), ..Address::default() });
        }
        self.lexer.seek(start);
        None
    }

    fn mailbox(&mut self) -> Address {
        let start = self.lexer.position();
        let mut address = self.name_addr().unwrap_or_else(|| {
            self.lexer.seek(start);
            self.addr_spec()
        });
        self.skip_garbage();
        if address.name.as_ref().is_some_and(Vec::is_empty) {
            address.name = None;
        }
        let mailbox = address.mailbox.get_or_insert_default();
        let host = address.host.get_or_insert_default();
        if self.profile == Profile::Dovecot {
            fill_missing(mailbox, b"MISSING_MAILBOX");
            fill_missing(host, b"MISSING_DOMAIN");
        }
        address
    }

    /// Skips to the next separator; an unfinished construct reaches to the end.
    fn skip_garbage(&mut self) {
        if self.lexer.unterminated() {
            self.ended = true;
            return;
        }
        let in_group = self.in_group;
        self.lexer.take_while(|byte| byte != b',' && !(in_group && byte == b';'));
    }

    /// Reads `[phrase] "<" [route ":"] addr-spec ">"`; `None` if there is no `<`.
    fn name_addr(&mut self) -> Option<Address> {
        let mut name = Vec::new();
        self.lexer.phrase(&mut name).ok()?;
        if !self.lexer.eat(b'<') {
            return None;
        }
        let mut address = Address { name: Some(name), ..Address::default() };
        let start = self.lexer.position();
        let whole = self.angle_addr(&mut address).is_ok();
        if !whole && self.profile == Profile::Dovecot {
            address.host = Some(b"SYNTAX_ERROR".to_vec());
        } else if !whole {
            self.lexer.seek(start);
            (address.route, address.mailbox, address.host) = (None, None, None);
            self.broken_angle_addr(&mut address);
        }
        Some(address)
    }

    fn angle_addr(&mut self, address: &mut Address) -> Lexed<()> {
        let lexer = &mut self.lexer;
        lexer.skip_cfws()?;
        if lexer.peek() == Some(b'@') {
            address.route = Some(route(lexer)?);
        }
        if lexer.peek() != Some(b'>') {
            address.mailbox = Some(local_part(lexer)?);
            if lexer.eat(b'@') {
                let mut host = Vec::new();
                lexer.domain(&mut host)?;
                address.host = Some(host);
            }
        }
        if !lexer.eat(b'>') {
            return Err(crate::lexer::Broken);
        }
        // A comment after the address may be unterminated; the address is still valid.
        lexer.skip_cfws().ok();
        Ok(())
    }

    /// Reads the text up to the `>` unchanged, divided at its last `@`.
    fn broken_angle_addr(&mut self, address: &mut Address) {
        let text = self.lexer.take_while(|byte| !matches!(byte, b'>' | b','));
        self.lexer.eat(b'>');
        let text: Vec<u8> = trim(text).iter().copied().filter(|b| !b"\r\n".contains(b)).collect();
        let (mailbox, host) = match memchr::memrchr(b'@', &text) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (&text[..], &text[..0]),
        };
        address.mailbox = Some(mailbox.to_vec());
        address.host = Some(host.to_vec());
    }

    /// Reads `addr-spec [comment]`, or a name alone.
    fn addr_spec(&mut self) -> Address {
        let lexer = &mut self.lexer;
        let (start, mut address) = (lexer.position(), Address::default());
        let text = lexer.rest();
        lexer.forget_comment();
        let local = local_part(lexer);
        let is_local = local.is_ok();
        // A quoted word that stands alone is a name.
        let is_quoted = text[..lexer.position() - start].contains(&b'"');
        address.mailbox = local.ok();
        let has_host = is_local && lexer.eat(b'@');
        if has_host {
            let mut host = Vec::new();
            // A partial host is better than none.
            lexer.domain(&mut host).ok();
            address.host = Some(host);
        }
        address.name = lexer.comment();
        if has_host || address.name.is_some() {
            return address;
        }
        let alone = is_local && !is_quoted && matches!(lexer.peek(), None | Some(b',' | b';'));
        if !alone {
            lexer.seek(start);
            let mut name = Vec::new();
            let readable = lexer.phrase(&mut name).is_ok();
            if !readable {
                lexer.seek(start);
                name = trim(lexer.take_while(|byte| byte != b',')).to_vec();
            }
            (address.name, address.mailbox) = (Some(name), None);
        }
        address
    }
}

fn fill_missing(text: &mut Vec<u8>, filler: &[u8]) {
    if text.is_empty() {
        text.extend_from_slice(filler);
    }
}

/// Reads `local-part = dot-atom / quoted-string`, with dots in odd places.
fn local_part(lexer: &mut Lexer<'_>) -> Lexed<Vec<u8>> {
    let mut local = Vec::new();
    match lexer.peek() {
        Some(b'"') => lexer.quoted_string(&mut local)?,
        _ => lexer.loose_dot_atom(&mut local)?,
    }
    // RFC 822's `word *("." word)`.
    while lexer.peek() == Some(b'.') {
        lexer.eat(b'.');
        local.push(b'.');
        lexer.skip_cfws()?;
        match lexer.peek() {
            Some(b'"') => lexer.quoted_string(&mut local)?,
            _ => lexer.loose_dot_atom(&mut local)?,
        }
    }
    Ok(local)
}

/// Reads `route = "@" domain *("," "@" domain) ":"`, kept with its `@` and commas.
fn route(lexer: &mut Lexer<'_>) -> Lexed<Vec<u8>> {
    let mut route = Vec::new();
    while lexer.eat(b'@') {
        if !route.is_empty() {
            route.push(b',');
        }
        route.push(b'@');
        lexer.domain(&mut route)?;
        while lexer.eat(b',') {
            lexer.skip_cfws()?;
        }
    }
    if !lexer.eat(b':') {
        return Err(crate::lexer::Broken);
    }
    lexer.skip_cfws()?;
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders an address as ENVELOPE does.
    fn render(address: &Address) -> String {
        let text = |part: &Option<Vec<u8>>| match part {
            Some(part) => format!("{:?}", String::from_utf8_lossy(part)),
            None => "NIL".to_owned(),
        };
        let Address { name, route, mailbox, host } = address;
        format!("({} {} {} {})", text(name), text(route), text(mailbox), text(host))
    }

    fn check(raw: &str, expected: &str) {
        let addresses = parse_addresses(raw.as_bytes());
        let found: Vec<_> = addresses.iter().map(render).collect();
        assert_eq!(found.concat(), expected, "{raw:?}");
        let first = first_mailbox(raw.as_bytes());
        let expected = addresses.first().and_then(|a| a.mailbox.clone()).unwrap_or_default();
        assert_eq!(*first, *expected, "{raw:?}");
        let expected = addresses.first().map(address_display_name).unwrap_or_default();
        assert_eq!(display_name(raw.as_bytes()), expected, "{raw:?}");
    }

    #[test]
    fn examples_of_rfc_5322_appendix_a() {
        check("John Doe <jdoe@machine.example>", r#"("John Doe" NIL "jdoe" "machine.example")"#);
        check(
            "\"Joe Q. Public\" <john.q.public@example.com>",
            r#"("Joe Q. Public" NIL "john.q.public" "example.com")"#,
        );
        check(
            "Mary Smith <mary@x.test>, jdoe@example.org, Who? <one@y.test>",
            r#"("Mary Smith" NIL "mary" "x.test")(NIL NIL "jdoe" "example.org")("Who?" NIL "one" "y.test")"#,
        );
        check(
            "<boss@nil.test>, \"Giant; \\\"Big\\\" Box\" <sysservices@example.net>",
            r#"(NIL NIL "boss" "nil.test")("Giant; \"Big\" Box" NIL "sysservices" "example.net")"#,
        );
        check(
            "A Group:Ed Jones <c@a.test>,joe@where.test,John <jdoe@one.test>;",
            r#"(NIL NIL "A Group" NIL)("Ed Jones" NIL "c" "a.test")(NIL NIL "joe" "where.test")("John" NIL "jdoe" "one.test")(NIL NIL NIL NIL)"#,
        );
        check(
            "Undisclosed recipients:;",
            r#"(NIL NIL "Undisclosed recipients" NIL)(NIL NIL NIL NIL)"#,
        );
        check(
            "Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>",
            r#"("Pete" NIL "pete" "silly.test")"#,
        );
        check(
            "Mary Smith <@node.test:mary@example.net>, , jdoe@test . example",
            r#"("Mary Smith" "@node.test" "mary" "example.net")(NIL NIL "jdoe" "test.example")"#,
        );
        check(
            "Joe Q. Public <john.q.public@example.com>",
            r#"("Joe Q. Public" NIL "john.q.public" "example.com")"#,
        );
    }

    #[test]
    fn forms_that_occur() {
        check("a@b (John Doe)", r#"("John Doe" NIL "a" "b")"#);
        check("root", r#"(NIL NIL "root" "")"#);
        check("<root>", r#"(NIL NIL "root" "")"#);
        check("<>", r#"(NIL NIL "" "")"#);
        check("Just A Name", r#"("Just A Name" NIL "" "")"#);
        check("\"\" <a@b>", r#"(NIL NIL "a" "b")"#);
        check("\"a\", b@c, \"d e\"", r#"("a" NIL "" "")(NIL NIL "b" "c")("d e" NIL "" "")"#);
        check(
            "g: \"a\", b;",
            r#"(NIL NIL "g" NIL)("a" NIL "" "")(NIL NIL "b" "")(NIL NIL NIL NIL)"#,
        );
        check("\"a\" (b)", r#"("b" NIL "a" "")"#);
        check("<\"a\">", r#"(NIL NIL "a" "")"#);
        check("\"\"", r#"(NIL NIL "" "")"#);
        check("\"a b\"@c", r#"(NIL NIL "a b" "c")"#);
        check("<\"a\".b@c>", r#"(NIL NIL "a.b" "c")"#);
        check("<a@[1.2.3.4]>", r#"(NIL NIL "a" "[1.2.3.4]")"#);
        check("x <a b@c>, d@e", r#"("x" NIL "a b" "c")(NIL NIL "d" "e")"#);
        check("x <a@b", r#"("x" NIL "a" "b")"#);
        check("\"x <a@b>", r#"("\"x <a@b>" NIL "" "")"#);
        check("<@a,@b:c@d>", r#"(NIL "@a,@b" "c" "d")"#);
        check("a@.b", r#"(NIL NIL "a" "")"#);
        check("a@b.", r#"(NIL NIL "a" "b.")"#);
        check("..a..@b", r#"(NIL NIL "..a.." "b")"#);
        check("a@b c@d, e@f", r#"(NIL NIL "a" "b")(NIL NIL "e" "f")"#);
        check("A: b@c", r#"(NIL NIL "A" NIL)(NIL NIL "b" "c")(NIL NIL NIL NIL)"#);
        check("A:;, b@c", r#"(NIL NIL "A" NIL)(NIL NIL NIL NIL)(NIL NIL "b" "c")"#);
        check("", "");
        check(" , ;", "");
        check("(only a comment)", "");
        check("(no end", "");
        check("a@b;c@d", r#"(NIL NIL "a" "b")"#);
        check("J\u{f6}rg <j@x>", "(\"J\u{f6}rg\" NIL \"j\" \"x\")");
    }

    #[test]
    fn dovecot_fills_in_what_is_missing() {
        let check = |raw: &str, mailbox: &str, name: &str| {
            let profile = Profile::Dovecot;
            assert_eq!(*first_mailbox_as(raw.as_bytes(), profile), *mailbox.as_bytes(), "{raw:?}");
            assert_eq!(display_name_as(raw.as_bytes(), profile), name, "{raw:?}");
        };
        check("a@b", "a", "a@b");
        check("<a b@c>", "a", "a@SYNTAX_ERROR");
        check("Just A Name", "MISSING_MAILBOX", "Just A Name");
        check("<>", "MISSING_MAILBOX", "MISSING_MAILBOX@MISSING_DOMAIN");
        check(", a@b", "MISSING_MAILBOX", "MISSING_MAILBOX@MISSING_DOMAIN");
        check("root", "root", "root@MISSING_DOMAIN");
        check("=?x?q?a?= =?utf-8?q?=C3?= <b@c>", "b", "a\u{fffd}");
        check("A: b@c;", "A", "A");
        check("", "", "");
    }

    #[test]
    fn names_are_decoded_for_display() {
        let check = |raw: &str, expected| assert_eq!(display_name(raw.as_bytes()), expected);
        check("=?utf-8?q?J=C3=B6rg?= <j@x>", "J\u{f6}rg");
        check("\"=?utf-8?q?J=C3=B6rg?=\" <j@x>", "J\u{f6}rg");
        check("j@x", "j@x");
        check("=?utf-8?q?a?=@x", "=?utf-8?q?a?=@x");
        check("<j@x>, k@y", "j@x");
        check("Group: a@b;", "Group");
    }

    /// Returns the addresses of a list, each taken apart.
    fn taken_apart(raw: &[u8]) -> Vec<Address> {
        let mut list = AddressList::new(raw);
        std::iter::from_fn(|| list.next()).collect()
    }

    #[test]
    fn usual_forms_are_read_as_all_others() {
        const PIECES: [&str; 34] = [
            "a",
            "b.c",
            "Name",
            "\u{e9}",
            "=?utf-8?q?x?=",
            "\"",
            "\"q\"",
            "\"q q\"",
            "\\",
            "<",
            ">",
            "<a@b>",
            "<a.b@c.d>",
            "@",
            "a@b",
            "c.d@e.f",
            "a..b@c",
            ".a@b",
            "a@.b",
            "a@b.",
            ",",
            ", ",
            ";",
            ":",
            "g:",
            " ",
            "  ",
            "\t",
            "\r\n ",
            "\n",
            "(c)",
            "(",
            ".",
            "[1.2]",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            let count = random.usize(0..10);
            let pick = |_| PIECES[random.usize(0..PIECES.len())];
            let raw: String = (0..count).map(pick).collect();
            assert_eq!(parse_addresses(raw.as_bytes()), taken_apart(raw.as_bytes()), "{raw:?}");
        }
    }

    #[test]
    fn hostile_lists_take_linear_time() {
        for unit in [
            ",", "(", "a(,", "\"", "a\",", "<", "<@", "a:", ":;", "<@a,", "a<,", "[", "a@[,", "a@",
            ".", "(a)", "\"a\"", ";",
        ] {
            let raw = unit.repeat(300_000);
            assert!(parse_addresses(raw.as_bytes()).len() <= ADDRESSES_MAX);
            first_mailbox(raw.as_bytes());
            display_name(raw.as_bytes());
        }
    }
}
