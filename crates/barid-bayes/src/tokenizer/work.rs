//! Counter of the bytes read or moved, by which tests check that time is linear in the message.

/// Adds `bytes` that were read or moved to the counter; does nothing outside of tests.
#[inline]
pub(super) fn note(bytes: usize) {
    #[cfg(test)]
    WORK.with(|work| work.set(work.get() + bytes as u64));
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
thread_local! {
    static WORK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::WORK;
    use crate::limits::LOOKAHEAD_LEN_MAX;
    use crate::options::{Options, Profile};
    use crate::tokenizer::Tokenizer;

    /// Bytes of the shorter of two messages of a kind.
    const LEN: usize = 150_000;

    fn work_of(message: &[u8], profile: Profile) -> u64 {
        let mut tokenizer = Tokenizer::new(Options::new(profile));
        WORK.with(|work| work.set(0));
        tokenizer.tokens(message, &mut |_| {});
        let room = tokenizer.text.end().capacity();
        assert!(room < 4 * LOOKAHEAD_LEN_MAX, "{room} bytes of text");
        WORK.with(std::cell::Cell::get)
    }

    /// Checks that a message twice as long takes about twice the work, and less than 200 per byte,
    /// for each of the texts in `all` that is repeated between `head` and `tail`.
    fn check(head: &str, all: &[&str], tail: &str) {
        for (again, profile) in all.iter().flat_map(|again| PROFILES.map(|one| (again, one))) {
            let message = |len: usize| head.to_owned() + &again.repeat(len / again.len()) + tail;
            let (short, long) = (message(LEN), message(2 * LEN));
            let work = [&short, &long].map(|message| work_of(message.as_bytes(), profile));
            let is_linear = work[1] <= 2 * work[0] + work[0] / 4 + 10_000;
            let per_byte = work[1] / long.len() as u64;
            assert!(is_linear && per_byte < 200, "{head:?} {again:?}: {work:?}, {per_byte}");
        }
    }

    const PROFILES: [Profile; 3] = [Profile::Bogofilter, Profile::Modern1, Profile::Modern];

    const HTML: &str = "Content-Type: text/html\n\n";

    #[test]
    fn words_without_end() {
        check("", &["a"], "");
        check("\n", &["a", "a.", "abcdefghi "], "");
        check("\n", &["a--", "1.1.1.", "$1."], "\n");
        check(HTML, &["a"], "<");
        check("Subject: ", &["a=", "a-1#", "a-1#b-c="], "\n");
        check("Subject: ", &["a-1#"], "=x@");
        check("Subject: ", &["a-x#", "a-1#b-"], "=x@y");
    }

    #[test]
    fn header_lines_without_end() {
        check("Message-Id: ", &["a"], "");
        check(
            "",
            &["Message-Id: a\n", "X-Bogosity: a\n b\n", "Content-Type: text/html\n", "a\n", " \n"],
            "",
        );
        check("X-Bogosity: a\n", &[" "], "");
        check("Received: x", &[" id ", " id\n"], "");
        check("Received: x id", &[" ", "\n "], "\n");
        check("X: ", &["boundary=", "charset=", "name=\""], "");
        check("X: boundary=", &[" "], "");
    }

    #[test]
    fn encoded_words_without_end() {
        check(
            "X: ",
            &[
                "=?a?q?",
                "=?utf-8?q?=41?= ",
                "=?utf-8?q?=41?=\n ",
                "=?utf-8?q?=3D=3Fus?=",
                "=?utf-8?b?PT94P3E/YT89?=",
                "a=?utf-8?q?a?=",
            ],
            "",
        );
        check("X: =?utf-8?q?", &["=3D=3Fx=3Fq=3F"], "?=");
    }

    #[test]
    fn tags_without_end() {
        check(
            HTML,
            &[
                "<b>",
                "a<b>",
                "a<b> ",
                "<",
                "a<",
                "<a ",
                "a<!--",
                "<!-- a>",
                "a<p>",
                "a<b>b<i>c<u",
                "<!DOCTYPE HTML PUBLIC ",
                "<a /%41<!DOCTYPE HTML PUBLIC ",
                "<a /%3e<!DOCTYPE HTML PUBLIC ",
            ],
            "",
        );
        check(HTML, &["a<b>"], "<");
        check(HTML, &["a<b><b>"], " ");
        check(HTML, &["a<b\n"], ">");
        check(&(HTML.to_owned() + "a"), &["<b>"], "<c");
        check("\n", &["<!DOCTYPE HTML PUBLIC a"], "\n");
    }

    #[test]
    fn entities_and_escapes_without_end() {
        check(HTML, &["&#97;", "a&#97;", "&#x", "&#1", "a&#300;", "&#", "&#38;#38;"], "");
        check(&(HTML.to_owned() + "<a "), &["/%41", "/"], "");
        check(&(HTML.to_owned() + "<a /"), &["a%61", "%25"], "");
    }

    #[test]
    fn parts_without_end() {
        let multipart = "Content-Type: multipart/mixed; boundary=b\n\n";
        check(
            multipart,
            &[
                "--b\n\na\n",
                "--b\nContent-Type: multipart/mixed; boundary=b\n\n",
                "--b\nContent-Type: multipart/mixed; boundary=bb\n\n--bb\n",
                "--\n",
                "--b--\n",
                "-----BEGIN PGP SIGNATURE-----\n",
                "-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n",
            ],
            "",
        );
        check(
            "",
            &["Content-Type: message/rfc822\n\n", "Content-Type: multipart/x; boundary=a\n\n--a\n"],
            "",
        );
        check("Content-Transfer-Encoding: base64\n\n", &["YWFhYWFh\n"], "");
        check("Content-Transfer-Encoding: quoted-printable\n\n", &["="], "");
    }

    #[test]
    fn deep_parts_are_many_comparisons_at_most() {
        // Every container has another boundary of one length, and none is the one of the lines.
        let mut message = String::new();
        for depth in 0..1_000 {
            let header =
                format!("Content-Type: multipart/x; boundary=b{depth:04}\n\n--b{depth:04}\n");
            message.push_str(&header);
        }
        message.push_str(&"--b9999\n".repeat(10_000));
        let work = work_of(message.as_bytes(), Profile::Bogofilter);
        assert!(work < 10_000 * 40 + 1_000_000, "{work}");
    }
}
