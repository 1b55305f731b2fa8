//! The random choices of a simulated crash.

use crate::mem::split_mix;

/// Fate of all changes that no barrier covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// All of it is lost.
    Nothing,
    /// All of it is kept.
    Everything,
    /// Names, sizes and attributes are kept, written bytes are lost.
    NamesOnly,
    /// Bytes and sizes are kept, names and attributes are lost.
    BytesOnly,
    /// Bytes and names are kept, sizes are lost.
    SizesLost,
    /// Every change is kept or lost at random.
    Random,
}

/// Fate of the written bytes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// No bytes reached the disk.
    Nothing,
    /// All bytes did.
    Everything,
    /// All writes before the one with this index did, and some sectors of that one.
    Until(usize),
    /// Each write did or did not, at random.
    SomeWrites,
    /// Each sector did or did not, at random.
    SomeSectors,
}

/// A seeded source of choices.
#[derive(Debug)]
pub(super) struct Choices {
    style: Style,
    seed: u64,
    drawn: u64,
}

impl Choices {
    pub(super) fn new(point: usize, seed: u64) -> Self {
        let style = match seed {
            0 => Style::Nothing,
            1 => Style::Everything,
            2 => Style::NamesOnly,
            3 => Style::BytesOnly,
            4 => Style::SizesLost,
            _ => Style::Random,
        };
        Self { style, seed: split_mix(seed ^ split_mix(point as u64)), drawn: 0 }
    }

    /// Returns a random number below `bound`, which must not be zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        (split_mix(self.seed ^ split_mix(self.drawn)) % bound as u64) as usize
    }

    /// Returns `true` with probability 1/2.
    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Chooses which bytes of a file with `pending` changes reached the disk.
    pub(super) fn flush(&mut self, pending: usize) -> Flush {
        match self.style {
            Style::Nothing | Style::NamesOnly => Flush::Nothing,
            Style::Everything | Style::BytesOnly | Style::SizesLost => Flush::Everything,
            Style::Random => match self.below(5) {
                0 => Flush::Nothing,
                1 => Flush::Everything,
                2 => Flush::Until(self.below(pending + 1)),
                3 => Flush::SomeWrites,
                _ => Flush::SomeSectors,
            },
        }
    }

    /// Chooses the number of `pending` changes that the size and times on the disk reflect.
    pub(super) fn inode(&mut self, pending: usize) -> usize {
        match self.style {
            Style::Nothing | Style::SizesLost => 0,
            Style::Everything | Style::NamesOnly | Style::BytesOnly => pending,
            Style::Random => match self.coin() {
                true => pending,
                false => self.below(pending + 1),
            },
        }
    }

    /// Chooses how many of `moves` blocks were moved by a collapse whose size did not reach the
    /// disk; `None` if it has not even made its hole.
    pub(super) fn collapse(&mut self, moves: usize) -> Option<usize> {
        match self.style {
            Style::Random => match self.below(4) {
                0 => None,
                1 => Some(moves),
                _ => Some(self.below(moves + 1)),
            },
            Style::SizesLost => Some(moves),
            _ => None,
        }
    }

    /// Chooses the number of `pending` changes of attributes that are on the disk.
    pub(super) fn xattrs(&mut self, pending: usize) -> usize {
        match self.style {
            Style::Nothing | Style::BytesOnly => 0,
            Style::Everything | Style::NamesOnly | Style::SizesLost => pending,
            Style::Random => self.below(pending + 1),
        }
    }

    /// Chooses whether a change of a name is on the disk, if those it depends on are.
    pub(super) fn name(&mut self) -> bool {
        match self.style {
            Style::Nothing | Style::BytesOnly => false,
            Style::Everything | Style::NamesOnly | Style::SizesLost => true,
            Style::Random => self.below(3) > 0,
        }
    }
}
