//! Threads as a flat list: rows in reading order, each with its depth.

use super::link::NONE;
use crate::QueryError;

/// The row of a dummy.
const DUMMY: u32 = NONE;
/// Bit in a depth for a message with siblings.
const HAS_SIBLINGS: u32 = 1 << 31;
const DEPTH: u32 = HAS_SIBLINGS - 1;

const MAGIC: u32 = u32::from_le_bytes(*b"bthr");
const VERSION: u32 = 1;
/// Magic, version, rows, threads, nodes.
const HEADER_LEN: usize = 20;

/// The threads of a mailbox, in their order.
///
/// Nodes are in pre-order, so a parent precedes its children and the children of one parent are in
/// their order. A dummy, a thread's absent first message, occurs only at depth 0 and has at least
/// two children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Number of messages in the mailbox.
    rows: u32,
    /// For each thread the index of its first node.
    roots: Vec<u32>,
    nodes: Vec<ThreadRow>,
}

/// A row, or [`DUMMY`], and its depth with [`HAS_SIBLINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadRow {
    row: u32,
    depth: u32,
}

/// A message or dummy in its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNode {
    /// The row of the message; `None` for a dummy.
    pub row: Option<u32>,
    /// Distance from the thread's root.
    pub depth: u32,
}

impl Threads {
    /// Returns the number of threads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Returns `true` if there are no threads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns the number of messages in the mailbox.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns all nodes in pre-order, thread after thread; a node of depth 0 begins a thread.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = ThreadNode> + '_ {
        Self::iterate(&self.nodes)
    }

    /// Returns the nodes of the last `count` threads: the newest by the order of the algorithm.
    pub fn newest(&self, count: usize) -> impl ExactSizeIterator<Item = ThreadNode> + '_ {
        let first = self.roots.len().saturating_sub(count);
        let start = self.roots.get(first).map_or(self.nodes.len(), |&root| root as usize);
        Self::iterate(&self.nodes[start..])
    }

    fn iterate(nodes: &[ThreadRow]) -> impl ExactSizeIterator<Item = ThreadNode> + '_ {
        nodes.iter().map(|node| ThreadNode {
            row: (node.row != DUMMY).then_some(node.row),
            depth: node.depth & DEPTH,
        })
    }

    /// Writes the threads in the form of a THREAD response after `* THREAD ` (RFC 5256 §4):
    ///
    /// ```text
    /// thread-list     = "(" (thread-members / thread-nested) ")"
    /// thread-members  = nz-number *(SP nz-number) [SP thread-nested]
    /// thread-nested   = 2*thread-list
    /// ```
    ///
    /// `number` returns the sequence number or UID of a row.
    pub fn write_imap(&self, number: impl Fn(u32) -> u32, out: &mut Vec<u8>) {
        // For each open depth, `true` if a parenthesis was opened there.
        let mut open: Vec<bool> = Vec::new();
        let mut room = [0u8; 10];
        let mut parent_is_dummy = true;
        for node in &self.nodes {
            let depth = (node.depth & DEPTH) as usize;
            let is_first_child = open.len() == depth;
            for _ in depth..open.len() {
                if open.pop() == Some(true) {
                    out.push(b')');
                }
            }
            if is_first_child && !parent_is_dummy {
                out.push(b' ');
            }
            let opens = depth == 0 || node.depth & HAS_SIBLINGS != 0;
            if opens {
                out.push(b'(');
            }
            if node.row != DUMMY {
                out.extend_from_slice(decimal(number(node.row), &mut room));
            }
            open.push(opens);
            parent_is_dummy = node.row == DUMMY;
        }
        out.extend(open.iter().filter(|opened| **opened).map(|_| b')'));
    }

    /// Writes the threads in barid's own form, for [`Threads::from_bytes`].
    ///
    /// `docs/formats/threads.md` has the byte map.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = HEADER_LEN + self.roots.len() * 4 + self.nodes.len() * 8;
        let mut bytes = Vec::with_capacity(len);
        let (threads, nodes) = (self.roots.len() as u32, self.nodes.len() as u32);
        for number in [MAGIC, VERSION, self.rows, threads, nodes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend(self.roots.iter().flat_map(|root| root.to_le_bytes()));
        for node in &self.nodes {
            bytes.extend_from_slice(&node.row.to_le_bytes());
            bytes.extend_from_slice(&node.depth.to_le_bytes());
        }
        bytes
    }

    /// Reads the form that [`Threads::to_bytes`] writes. Linear; visits each node once.
    ///
    /// # Errors
    /// Returns [`QueryError::Stored`] if the bytes are not complete threads.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, QueryError> {
        let (header, rest) = bytes.split_at_checked(HEADER_LEN).ok_or(CUT)?;
        let header: Vec<u32> = words(header).collect();
        if header[..2] != [MAGIC, VERSION] {
            return Err(QueryError::Stored("not a thread list of this version"));
        }
        let (rows, roots_len) = (header[2], header[3] as usize * 4);
        let (roots, nodes) = rest.split_at_checked(roots_len).ok_or(CUT)?;
        if nodes.len() != header[4] as usize * 8 {
            return Err(CUT);
        }
        let threads = Self {
            rows,
            roots: words(roots).collect(),
            nodes: nodes
                .chunks_exact(8)
                .map(|node| ThreadRow { row: word(&node[..4]), depth: word(&node[4..]) })
                .collect(),
        };
        threads.check()?;
        Ok(threads)
    }

    fn check(&self) -> Result<(), QueryError> {
        let mut roots = self.roots.iter();
        let mut below = 0;
        for (at, node) in (0..).zip(&self.nodes) {
            let depth = node.depth & DEPTH;
            let in_place = if depth == 0 { roots.next() == Some(&at) } else { depth <= below };
            if !in_place || node.row >= self.rows && node.row != DUMMY {
                return Err(QueryError::Stored("a node is out of place"));
            }
            below = depth + 1;
        }
        match roots.next() {
            None => Ok(()),
            Some(_) => Err(QueryError::Stored("more roots than threads")),
        }
    }
}

const CUT: QueryError = QueryError::Stored("truncated or too long");

/// Reads four octets.
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("because the caller gives four octets"))
}

/// Reads octets four by four.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(word)
}

/// Writes a number into `room`, without an allocation.
fn decimal(mut number: u32, room: &mut [u8; 10]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}

/// A builder that takes nodes in pre-order.
#[derive(Debug)]
pub(super) struct ThreadsBuilder {
    threads: Threads,
}

impl ThreadsBuilder {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let threads = Threads { nodes: Vec::with_capacity(rows), ..Threads::default() };
        Self { threads }
    }

    pub(super) fn root(&mut self, row: Option<u32>) {
        self.threads.roots.push(self.threads.nodes.len() as u32);
        self.threads.nodes.push(ThreadRow { row: row.unwrap_or(DUMMY), depth: 0 });
    }

    #[inline]
    pub(super) fn child(&mut self, row: u32, depth: u32, has_siblings: bool) {
        let depth = if has_siblings { depth | HAS_SIBLINGS } else { depth };
        self.threads.nodes.push(ThreadRow { row, depth });
    }

    pub(super) fn finish(mut self, rows: u32) -> Threads {
        self.threads.rows = rows;
        self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds threads from (number, depth); number 0 is a dummy.
    fn threads(nodes: &[(u32, u32)]) -> Threads {
        let mut builder = ThreadsBuilder::with_capacity(nodes.len());
        for (at, &(number, depth)) in nodes.iter().enumerate() {
            if depth == 0 {
                builder.root(number.checked_sub(1));
                continue;
            }
            let brother = |others: &mut dyn Iterator<Item = &(u32, u32)>| {
                others.take_while(|other| other.1 >= depth).any(|other| other.1 == depth)
            };
            let has_siblings =
                brother(&mut nodes[at + 1..].iter()) || brother(&mut nodes[..at].iter().rev());
            builder.child(number - 1, depth, has_siblings);
        }
        builder.finish(100)
    }

    fn check(nodes: &[(u32, u32)], expected: &str) {
        let threads = threads(nodes);
        let mut out = Vec::new();
        threads.write_imap(|row| row + 1, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(Threads::from_bytes(&threads.to_bytes()), Ok(threads));
    }

    #[test]
    fn imap() {
        check(&[], "");
        check(&[(2, 0)], "(2)");
        let example = [(2, 0), (3, 0), (6, 1), (4, 2), (23, 3), (44, 2), (7, 3), (96, 4)];
        check(&example, "(2)(3 6 (4 23)(44 7 96))");
        check(&[(0, 0), (3, 1), (5, 1)], "((3)(5))");
        check(&[(0, 0), (3, 1), (7, 2), (8, 2), (5, 1), (9, 2), (1, 0)], "((3 (7)(8))(5 9))(1)");
        check(&[(1, 0), (2, 1), (3, 1), (4, 2), (5, 1)], "(1 (2)(3 4)(5))");
    }

    #[test]
    fn newest_are_the_last_threads() {
        let threads = threads(&[(1, 0), (2, 1), (0, 0), (3, 1), (4, 1), (5, 0)]);
        let rows = |count| threads.newest(count).map(|node| node.row).collect::<Vec<_>>();
        assert_eq!(rows(0), []);
        assert_eq!(rows(1), [Some(4)]);
        assert_eq!(rows(2), [None, Some(2), Some(3), Some(4)]);
        assert_eq!(rows(9).len(), 6);
        assert_eq!(threads.nodes().len(), 6);
    }

    #[test]
    fn damaged_lists_are_refused() {
        let good = threads(&[(1, 0), (2, 1), (3, 2), (4, 0)]).to_bytes();
        for len in 0..good.len() {
            assert!(Threads::from_bytes(&good[..len]).is_err(), "{len}");
        }
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..5000 {
            let mut bytes = good.clone();
            bytes[random.usize(..good.len())] = random.u8(..);
            if let Ok(threads) = Threads::from_bytes(&bytes) {
                threads.write_imap(|row| row, &mut Vec::new());
            }
        }
        let mut too_deep = good.clone();
        too_deep[HEADER_LEN + 8 + 8 + 4] = 2;
        assert!(Threads::from_bytes(&too_deep).is_err());
    }
}
