//! The score of unknown tokens: the mean score of tokens that were seen often, as `bogoutil -r`
//! computes it.

use crate::entry::keys;
use crate::{Batch, Result, TokenEntry, WordList};

/// The fewest messages that a token must have been in.
const SEEN_MIN: u64 = 10;
/// Factor by which robx is multiplied in [`keys::ROBX`].
const SCALE: f64 = 1_000_000.0;

/// The result of [`robx`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robx {
    /// The mean score, from 0 to 1.
    pub value: f64,
    /// Number of tokens of which it is the mean.
    pub tokens: u64,
}

/// Computes robx; `None` if the list has no spam, no ham, or no tokens that were seen often enough.
///
/// # Errors
/// As [`WordList::scan`].
pub fn robx(list: &mut dyn WordList) -> Result<Option<Robx>> {
    let totals = list.totals()?;
    if totals.spam == 0 || totals.ham == 0 {
        return Ok(None);
    }
    let scale = f64::from(totals.spam) / f64::from(totals.ham);
    let (mut sum, mut tokens) = (0.0, 0_u64);
    list.scan(&mut |token, entry| {
        let often = u64::from(entry.spam) + u64::from(entry.ham) >= SEEN_MIN;
        if often && token.first() != Some(&b'.') {
            sum += f64::from(entry.spam) / (f64::from(entry.ham) * scale + f64::from(entry.spam));
            tokens += 1;
        }
        true
    })?;
    Ok((tokens > 0).then(|| Robx { value: sum / tokens as f64, tokens }))
}

/// Computes robx and stores it in the list with `date`, as YYYYMMDD.
///
/// # Errors
/// As [`robx`] and [`WordList::update`].
pub fn store_robx(list: &mut dyn WordList, date: u32) -> Result<Option<Robx>> {
    let found = robx(list)?;
    if let Some(found) = found {
        let mut batch = Batch::new(date);
        let spam = (found.value * SCALE) as u32;
        batch.set(keys::ROBX, TokenEntry { spam, ham: 0, date })?;
        list.update(&batch)?;
    }
    Ok(found)
}
