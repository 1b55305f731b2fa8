//! The tokens of a message, from us and from bogofilter, side by side.

use barid_bayes::{AddressPrefix, Options, Tokenizer, WordEncoding};
use barid_testkit::peers::Bogofilter;

/// Fields whose whole line bogolexer prints where it should print the name: only the name counts.
const LINES: [&[u8]; 6] =
    [b"message-id", b"date", b"delivery-date", b"resent-message-id", b"in-reply-to", b"references"];

pub(crate) fn ours(tokenizer: &mut Tokenizer, message: &[u8]) -> Vec<Vec<u8>> {
    let mut tokens = Vec::new();
    for message in split(message) {
        tokenizer.tokens(message, &mut |token| tokens.push(token.to_vec()));
    }
    tokens
}

pub(crate) fn theirs(peer: &Bogofilter, args: &[&str], message: &[u8]) -> Vec<Vec<u8>> {
    let output = peer.lexer(&[&["-p"], args].concat(), message).unwrap();
    let mut tokens: Vec<_> =
        output.stdout.split(|byte| *byte == b'\n').map(<[_]>::to_vec).collect();
    tokens.pop();
    tokens
}

/// Checks that both give the same tokens. Returns their number.
pub(crate) fn check(peer: &Bogofilter, args: &[&str], message: &[u8], name: &str) -> usize {
    if split(message).len() > 1 && args.iter().any(|arg| arg.starts_with("--multi")) {
        // It joins words across messages of one run.
        return 0;
    }
    let mut tokenizer = Tokenizer::new(options(args));
    let ours = ours(&mut tokenizer, message);
    let theirs = theirs(peer, args, message);
    let same = ours.iter().zip(&theirs).take_while(|(ours, theirs)| is_same(ours, theirs)).count();
    let shown = |tokens: &[Vec<u8>]| {
        let range = same.saturating_sub(3)..tokens.len().min(same + 3);
        String::from_utf8_lossy(&tokens[range].join(&b' ')).into_owned()
    };
    assert!(
        same == ours.len() && same == theirs.len(),
        "{name} {args:?}: token {same} of {} and {}\n  {}\n  {}",
        ours.len(),
        theirs.len(),
        shown(&ours),
        shown(&theirs)
    );
    same
}

fn is_same(ours: &[u8], theirs: &[u8]) -> bool {
    let is_line = || {
        let rest = theirs.strip_prefix(ours).unwrap_or_default();
        rest.starts_with(b":") && LINES.iter().any(|name| name.eq_ignore_ascii_case(ours))
    };
    ours == theirs || is_line()
}

/// bogolexer reads every file as an mbox if it begins with `F`.
fn split(file: &[u8]) -> Vec<&[u8]> {
    let mut starts = vec![0];
    let (mut at, mut is_first, mut is_behind_empty) = (0, true, false);
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        let is_separator = line.starts_with(b"From ") && (is_first || is_behind_empty);
        if is_separator && file.starts_with(b"F") {
            if !is_first {
                starts.push(at);
            }
            is_first = false;
        }
        is_behind_empty = matches!(line, b"\n" | b"\r\n");
        at += line.len();
    }
    let ends = starts[1..].iter().copied().chain([file.len()]);
    starts.iter().zip(ends).map(|(start, end)| &file[*start..end]).collect()
}

/// Returns the options that correspond to arguments of bogolexer.
fn options(args: &[&str]) -> Options {
    // Without a word list there is no version that asks for `ip:`.
    let mut options = Options { address_prefix: AddressPrefix::Url, ..Options::default() };
    for arg in args {
        let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
        let number = || value.parse().unwrap();
        match name {
            "-H" => options.header_prefixes = false,
            "-n" => options.replace_non_ascii = true,
            "--unicode" => options.word_encoding = WordEncoding::Raw,
            "--block-on-subnets" => options.block_on_subnets = true,
            "--charset-default" => options.charset_default = value.to_owned(),
            "--multi-token-count" => options.multi_token_count = number(),
            "--max-multi-token-len" => options.multi_token_len_max = number(),
            "--max-token-len" => options.token_len_max = number(),
            "--min-token-len" => options.token_len_min = number(),
            _ => panic!("{arg}"),
        }
    }
    options
}
