//! The text of HTML: tags removed, entities decoded, scripts and styles left out.
//!
//! Unlike the converter for messages that are shown, this one keeps the words of neighbouring cells
//! and blocks apart, which a search needs, and includes the title. One pass; nothing is built.

use mail_parser::decoders::html::add_html_token;

use crate::limits::ENTITY_LEN_MAX;
use crate::sink::{End, TextSink};

/// Elements whose content is not text.
const HIDDEN: [&str; 3] = ["script", "style", "template"];

/// Elements within a line; all others end it.
const INLINE: [&str; 31] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "tt", "u", "var", "wbr",
];

/// Elements that stand beside each other, as cells of a table or images in a line.
const BESIDE: [&str; 6] = ["td", "th", "img", "input", "button", "label"];

/// Reads the text.
///
/// # Errors
/// [`End::Full`].
pub(crate) fn read(html: &str, sink: &mut TextSink) -> Result<(), End> {
    let mut rest = html;
    while !rest.is_empty() {
        let at = memchr::memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len());
        push_words(&rest[..at], sink)?;
        rest = &rest[at..];
        rest = match rest.as_bytes() {
            [b'<', ..] => markup(rest, sink)?,
            [b'&', ..] => entity(rest, sink)?,
            _ => rest,
        };
    }
    sink.end_line()
}

/// Appends a text with single spaces for all white space.
fn push_words(text: &str, sink: &mut TextSink) -> Result<(), End> {
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        sink.push(&rest[..word])?;
        rest = &rest[word..];
        let after = rest.trim_ascii_start();
        if after.len() < rest.len() {
            sink.space()?;
        }
        rest = after;
    }
    Ok(())
}

/// Reads a tag, a comment or a lone `<` at the start of a text; returns the rest.
fn markup<'h>(html: &'h str, sink: &mut TextSink) -> Result<&'h str, End> {
    let after = |end: Option<usize>| html.get(end.unwrap_or(html.len())..).unwrap_or_default();
    let find = |text: &str, from: usize| {
        let rest = html.as_bytes().get(from..)?;
        memchr::memmem::find(rest, text.as_bytes()).map(|at| from + at + text.len())
    };
    match html.as_bytes() {
        // `<!-->` is a whole comment.
        [b'<', b'!', b'-', b'-', ..] => return Ok(after(find("-->", 2))),
        [b'<', b'!' | b'?', ..] => return Ok(after(find(">", 1))),
        [b'<', b'/', letter, ..] | [b'<', letter, ..] if letter.is_ascii_alphabetic() => {}
        _ => {
            sink.push("<")?;
            return Ok(after(Some(1)));
        }
    }
    let is_end = html[1..].starts_with('/');
    let name = &html[1 + usize::from(is_end)..];
    let is_part = |c: char| !c.is_ascii_whitespace() && c != '>' && c != '/';
    let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
    let rest = after(tag_end(html));
    let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is(&BESIDE) {
        sink.space()?;
    } else if !is(&INLINE) {
        sink.end_line()?;
    }
    Ok(if !is_end && is(&HIDDEN) { after_hidden(rest, name) } else { rest })
}

/// Returns the length of the tag at the start; `None` if it has no end. A `>` in quotes belongs to
/// the value of an attribute.
fn tag_end(html: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr3(b'>', b'"', b'\'', &html.as_bytes()[at..])?;
        let found = html.as_bytes()[at];
        at += 1;
        if found == b'>' {
            return Some(at);
        }
        // Only a quote after `=` begins a value in quotes.
        if html[..at - 1].trim_ascii_end().ends_with('=') {
            at += memchr::memchr(found, &html.as_bytes()[at..])? + 1;
        }
    }
}

/// Returns the rest after the end of an element without text.
fn after_hidden<'h>(html: &'h str, name: &str) -> &'h str {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', &html.as_bytes()[at..]) {
        at += found;
        let tag = html.as_bytes()[at + 1..].strip_prefix(b"/").unwrap_or_default();
        let is_end = tag.get(..name.len()).is_some_and(|end| {
            end.eq_ignore_ascii_case(name.as_bytes())
                && !tag.get(name.len()).is_some_and(u8::is_ascii_alphanumeric)
        });
        if is_end {
            return &html[at..];
        }
        at += 1;
    }
    ""
}

/// Reads an entity, or a lone `&`, at the start of a text; returns the rest.
fn entity<'h>(html: &'h str, sink: &mut TextSink) -> Result<&'h str, End> {
    let window = &html.as_bytes()[1..html.len().min(ENTITY_LEN_MAX)];
    let len = window.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#');
    match len {
        Some(len @ 1..) if window[len] == b';' => {
            let (token, rest) = html.split_at(len + 2);
            let mut text = String::new();
            add_html_token(&mut text, token.as_bytes(), false);
            match &*text {
                "\u{a0}" => sink.space()?,
                "\u{ad}" => {}
                text => sink.push(text)?,
            }
            Ok(rest)
        }
        _ => {
            sink.push("&")?;
            Ok(&html[1..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &str) {
        let mut sink = TextSink::default();
        read(html, &mut sink).unwrap();
        assert_eq!(sink.finish().0, expected, "{html}");
    }

    #[test]
    fn blocks_are_lines_and_cells_are_apart() {
        check("<p>One <b>t</b>wo</p><div>three</div>four", "One two\nthree\nfour\n");
        check("<table><tr><td>a</td><td>b</td></tr><tr><th>c<th>d</table>", "a b\nc d\n");
        check("<ul><li>x<li>y</ul>", "x\ny\n");
        check("a<br>b<BR/>c<hr>d", "a\nb\nc\nd\n");
        check("<title>T</title><body>  one\n\t two  </body>", "T\none two\n");
    }

    #[test]
    fn what_is_no_text_is_left_out() {
        check("a<script>if (a < b) { x('</p>') }</script>b", "a\nb\n");
        check("<STYLE>p > a {}</Style>x<style>y", "x\n");
        check("a<!-- > -- b --> c<!-->d<!DOCTYPE html>e<?xml?>f", "a cdef\n");
        check("<a href='x>y' title=\"a'>b\">z</a>", "z\n");
        check("<a href=it's>z</a>", "z\n");
        check("<p", "");
        check("a <p title=\"never closed", "a\n");
    }

    #[test]
    fn entities_and_lone_signs() {
        check("1 &lt; 2 &amp;&#38;&#x26; &euro;", "1 < 2 &&& €\n");
        check("a&nbsp;b&shy;c &none; &;& AT&T x &#xFFFFFFFF;", "a bc &none; &;& AT&T x \u{fffd}\n");
        check("1 < 2 <3 a<", "1 < 2 <3 a<\n");
        check("é<b>ü</b>&", "éü&\n");
    }

    #[test]
    fn time_is_linear() {
        for text in ["<", "<a '", "&", "<!--", "<script>", "<script></", "<a href=\"", "&lt"] {
            let mut sink = TextSink::default();
            let _ = read(&text.repeat(1 << 20), &mut sink);
        }
    }
}
