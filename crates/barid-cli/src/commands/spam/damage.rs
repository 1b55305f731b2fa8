//! Warnings of damaged word lists, each shown once with a hint.

use barid_spam::Filter;
use barid_spam::wordlist::Damage;

use crate::context::Context;
use crate::output::escape::visible;
use crate::output::number::counted;

/// The hint for a damaged word list.
pub(super) const WAY_OUT: &str = "the undamaged part is used and kept; to get the rest back, restore \
     the file from a backup, or move the list away and `barid spam load` a dump; `barid spam \
     maintain` repairs the list without it";

/// Warns of damage of the filter's word list; returns `true` if there is any.
pub(super) fn warn_of(context: &Context, filter: &Filter) -> bool {
    warn_of_new(context, filter, &mut Vec::new())
}

/// Like [`warn_of`], but does not warn of damage in `known`, to which it adds the new damage.
pub(super) fn warn_of_new(context: &Context, filter: &Filter, known: &mut Vec<Damage>) -> bool {
    let mut damage = filter.damage(0);
    let is_damaged = !damage.is_empty();
    damage.retain(|damage| !known.contains(damage));
    if let Some(text) = in_words(&damage) {
        context.warn(&text);
        if !context.global.quiet {
            context.error_line("hint", &visible(WAY_OUT.as_bytes()));
        }
    }
    known.extend(damage);
    is_damaged
}

/// Describes the first damage, and the number of others; `None` if there is none.
pub(super) fn in_words(damage: &[Damage]) -> Option<String> {
    let (first, more) = damage.split_first()?;
    let Damage { path, offset, what } = first;
    let more = match more.len() {
        0 => String::new(),
        more => format!(", and in {}", counted(more as u64, "more place")),
    };
    Some(format!("{}: damaged at byte {offset}: {what}{more}", path.display()))
}
