//! The length of each written header: whose padding is used, and how the space of expunged messages
//! is closed.
//!
//! Any length is valid; lengths only decide how much of the file moves.

use super::measure::{Context, HeaderReaders, Measured};
use super::plan::PlanInput;
use barid_mailbox::Result;

use crate::mbox::layout::{ABSORB_MAX, LOOKAHEAD_LEN, PADDING_KEPT, PADDING_LEN, PLAIN_GROWTH_MAX};

/// Way of handling the shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// No shift is wanted: there is none, or one towards the start of the file that the next
    /// headers absorb.
    Local,
    /// Headers grew; the padding of the next ones, except for this number of spaces each, makes up
    /// for it.
    Borrow(usize),
    /// Everything to the end moves, and every header that lacks room gets some.
    Rewrite,
    /// Everything to the end moves.
    Move,
}

/// New length of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderLength {
    /// This number of bytes.
    Is(usize),
    /// It must grow, and no room was found for that yet.
    Grows,
}

/// Returns the least length of a header in [`Mode::Borrow`] that leaves `kept` spaces to it.
fn floor(measured: &Measured, kept: usize) -> usize {
    let least = (measured.full + kept).min(measured.max().max(measured.compact));
    match measured.is_writable() {
        true if measured.is_changed || measured.old_len > least => least,
        _ => measured.old_len,
    }
}

/// Returns the greatest length of a header that absorbs bytes expunged before it.
fn ceiling(measured: &Measured) -> usize {
    (measured.full + ABSORB_MAX).max(measured.old_len).min(measured.max())
}

/// Returns the length of a header with room to grow.
pub(super) fn roomy(measured: &Measured) -> usize {
    (measured.full + PADDING_LEN).min(measured.max().max(measured.compact))
}

/// Returns the length of a header at a `shift`.
pub(super) fn length(mode: Mode, shift: i64, measured: &Measured) -> HeaderLength {
    let old = measured.old_len;
    if !measured.is_writable() {
        return HeaderLength::Is(old);
    }
    let has_room = old >= measured.full + PADDING_KEPT;
    let has_too_much = old > measured.full + ABSORB_MAX / 16;
    // The length that ends the shift.
    let exact = usize::try_from(old as i64 - shift).unwrap_or(0);
    match mode {
        Mode::Rewrite if !has_room || has_too_much => HeaderLength::Is(roomy(measured)),
        Mode::Move if measured.is_changed && !has_room => HeaderLength::Is(roomy(measured)),
        Mode::Rewrite | Mode::Move => HeaderLength::Is(old),
        Mode::Local if shift == 0 && !measured.is_changed => HeaderLength::Is(old),
        Mode::Borrow(kept) if shift > 0 => HeaderLength::Is(exact.max(floor(measured, kept))),
        Mode::Local | Mode::Borrow(_) => match exact.min(ceiling(measured)) {
            len if len >= measured.compact && shift <= 0 => HeaderLength::Is(len),
            _ if measured.is_changed => HeaderLength::Grows,
            _ => HeaderLength::Is(old),
        },
    }
}

/// Returns the length of a growing header, for which [`RoomSearch::find`] chose `mode`.
pub(super) fn grown(mode: Mode, measured: &Measured) -> usize {
    match mode {
        Mode::Borrow(kept) => floor(measured, kept),
        _ => roomy(measured),
    }
}

/// Returns the bytes that a message lacks at a `shift`, if `kept` spaces are left to it.
pub(super) fn missing(shift: i64, measured: &Measured, kept: usize) -> i64 {
    shift + floor(measured, kept) as i64 - measured.old_len as i64
}

/// Measures the messages ahead.
pub(super) struct RoomSearch<'p> {
    tools: HeaderReaders<'p>,
    /// Offset up to which there is not enough padding to leave some to each header.
    scarce_until: u64,
}

/// Result of looking ahead.
enum RoomAhead {
    Enough,
    /// The mailbox ends, this number of bytes ahead.
    End(u64),
    /// Up to this offset there is not enough padding.
    Far(u64),
}

impl<'p> RoomSearch<'p> {
    pub(super) fn new(input: &'p PlanInput<'p>) -> Self {
        Self { tools: HeaderReaders::new(input), scarce_until: 0 }
    }

    /// Returns the mode in which the messages from `next` on make up for the `missing` bytes, which
    /// depend on the number of spaces kept.
    pub(super) fn find(
        &mut self,
        context: &Context<'_>,
        next: u32,
        missing: &dyn Fn(usize) -> i64,
    ) -> Result<Mode> {
        let mut far = Mode::Rewrite;
        let start = self.tools.cursor.get(next)?.map_or(0, |item| item.offset);
        for kept in [PADDING_KEPT, 0] {
            if kept > 0 && start < self.scarce_until {
                continue;
            }
            match self.borrow(context, next, missing(kept), kept)? {
                RoomAhead::Enough => return Ok(Mode::Borrow(kept)),
                RoomAhead::End(left) if left <= PLAIN_GROWTH_MAX => far = Mode::Move,
                RoomAhead::End(_) => {}
                RoomAhead::Far(offset) => self.scarce_until = offset,
            }
        }
        Ok(far)
    }

    /// Looks for `missing` bytes of padding and expunged messages from `next` on.
    fn borrow(
        &mut self,
        context: &Context<'_>,
        next: u32,
        missing: i64,
        kept: usize,
    ) -> Result<RoomAhead> {
        let (mut next, mut missing, mut start) = (next, missing, None);
        while missing > 0 {
            let Some(item) = self.tools.cursor.get(next)? else {
                let size = context.input.size;
                return Ok(RoomAhead::End(size.saturating_sub(start.unwrap_or(size))));
            };
            if item.offset.saturating_sub(*start.get_or_insert(item.offset)) > LOOKAHEAD_LEN {
                return Ok(RoomAhead::Far(item.offset));
            }
            if context.targets.is_expunged(next) {
                missing -= (item.end() - item.offset) as i64;
            } else {
                let measured = self.tools.measure(context, next, &item)?;
                missing += self::missing(0, &measured, kept);
            }
            next += 1;
        }
        Ok(RoomAhead::Enough)
    }

    /// Returns `true` if the messages from `next` on can absorb `surplus` bytes, as long as these
    /// and the bytes expunged among them do not exceed `most`.
    pub(super) fn can_absorb(
        &mut self,
        context: &Context<'_>,
        next: u32,
        surplus: u64,
        most: u64,
    ) -> Result<bool> {
        let (mut next, mut surplus, mut start) = (next, surplus, None);
        while surplus > 0 {
            let Some(item) = self.tools.cursor.get(next)? else { return Ok(false) };
            let passed = item.offset.saturating_sub(*start.get_or_insert(item.offset));
            if passed > LOOKAHEAD_LEN || surplus > most {
                return Ok(false);
            }
            if context.targets.is_expunged(next) {
                surplus += item.end() - item.offset;
            } else {
                let measured = self.tools.measure(context, next, &item)?;
                match length(Mode::Local, -(surplus as i64), &measured) {
                    HeaderLength::Is(len) => {
                        let absorbed = len as i64 - measured.old_len as i64;
                        surplus = surplus.saturating_add_signed(-absorbed);
                    }
                    HeaderLength::Grows => return Ok(true),
                }
            }
            next += 1;
        }
        Ok(true)
    }
}
