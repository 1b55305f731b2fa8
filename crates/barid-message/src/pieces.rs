//! Texts that come in pieces, cut so that lines can be judged by their beginnings.

/// The word that separates messages in an mbox.
const FROM: &[u8] = b"From ";

/// The longest beginning of a line that is held back, in bytes: longer rows of `>` count as any
/// text.
const HELD_LEN_MAX: usize = 64 << 10;

/// A divider of a text that comes in pieces: it cuts no row of `>`, and no `From ` after one, at
/// the start of a line.
#[derive(Clone, Debug, Default)]
pub struct LinePieces {
    held: Vec<u8>,
    in_line: bool,
}

/// A function that receives a piece, and `true` if the piece begins within a line.
pub type TakeLines<'a> = dyn FnMut(&[u8], bool) + 'a;

impl LinePieces {
    /// Adds the next bytes; passes on those that no later byte can affect.
    pub fn push(&mut self, piece: &[u8], take: &mut TakeLines<'_>) {
        if self.held.is_empty() {
            let len = self.pass(piece, take);
            self.held.extend_from_slice(&piece[len..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(piece);
            let len = self.pass(&held, take);
            held.drain(..len);
            self.held = held;
        }
    }

    /// Passes on the remaining bytes.
    pub fn finish(&mut self, take: &mut TakeLines<'_>) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            take(&held, self.in_line);
        }
        self.in_line = false;
    }

    /// Passes on the bytes that no later byte can affect; returns their number.
    fn pass(&mut self, text: &[u8], take: &mut TakeLines<'_>) -> usize {
        let start = memchr::memrchr(b'\n', text).map(|end| end + 1);
        let start = start.or((!self.in_line).then_some(0));
        let len = start.filter(|start| is_open(&text[*start..])).unwrap_or(text.len());
        if len > 0 {
            take(&text[..len], self.in_line);
            self.in_line = text[len - 1] != b'\n';
        }
        len
    }
}

/// Returns `true` if more bytes may make the beginning of a line a row of `>` and `From `.
fn is_open(line: &[u8]) -> bool {
    let marks = line.iter().take_while(|byte| **byte == b'>').count();
    let word = &line[marks..];
    line.len() < HELD_LEN_MAX && word.len() < FROM.len() && FROM.starts_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_whole() {
        let mut rng = fastrand::Rng::with_seed(9);
        let parts = ["\n", ">", "From ", "Fro", "m ", "x", "F", "\r\n"];
        for _ in 0..5000 {
            let text: String = (0..rng.usize(..12)).map(|_| *rng.choice(&parts).unwrap()).collect();
            let (mut lines, mut out) = (LinePieces::default(), Vec::<u8>::new());
            let mut take = |piece: &[u8], in_line: bool| {
                assert_eq!(in_line, out.last().is_some_and(|last| *last != b'\n'), "{text:?}");
                let start = memchr::memrchr(b'\n', piece).map(|end| end + 1);
                let start = start.or((!in_line).then_some(0));
                let last = start.map_or(&b"x"[..], |start| &piece[start..]);
                let at = out.len() + piece.len();
                assert!(at == text.len() || last.is_empty() || !is_open(last), "{text:?}");
                out.extend_from_slice(piece);
            };
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rng.usize(..=rest.len()));
                lines.push(piece, &mut take);
                rest = after;
            }
            lines.finish(&mut take);
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn endless_marks_are_passed_on() {
        let mut lines = LinePieces::default();
        let mut most = 0;
        for _ in 0..100 {
            lines.push(&[b'>'; 1000], &mut |piece, _| most = most.max(piece.len()));
            assert!(lines.held.len() < HELD_LEN_MAX);
        }
        assert!(most >= HELD_LEN_MAX);
    }
}
