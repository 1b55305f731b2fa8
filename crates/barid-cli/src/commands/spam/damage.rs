//! What is damaged of a word list: told once, with the way out.

use barid::spam::Filter;
use barid::wordlist::Damage;

use crate::context::Context;
use crate::output::escape::visible;
use crate::output::number::counted;

/// What to do about it.
pub(super) const WAY_OUT: &str = "what is sound is used and kept; to have all again, bring back the file, or move the list away \
     and `barid spam load` a dump; `barid spam maintain` makes the list whole without what is lost";

/// Tells what was found damaged in the filter's word list; whether there was something.
pub(super) fn tell(context: &Context, filter: &Filter) -> bool {
    tell_new(context, filter, &mut Vec::new())
}

/// As [`tell`], but for what was told before.
pub(super) fn tell_new(context: &Context, filter: &Filter, told: &mut Vec<Damage>) -> bool {
    let mut damage = filter.damage(0);
    let is_damaged = !damage.is_empty();
    damage.retain(|damage| !told.contains(damage));
    if let Some(text) = in_words(&damage) {
        context.warn(&text);
        if !context.global.quiet {
            context.error_line("hint", &visible(WAY_OUT.as_bytes()));
        }
    }
    told.extend(damage);
    is_damaged
}

/// The first of them, and how many more there are.
pub(super) fn in_words(damage: &[Damage]) -> Option<String> {
    let (first, more) = damage.split_first()?;
    let Damage { path, offset, what } = first;
    let more = match more.len() {
        0 => String::new(),
        more => format!(", and in {}", counted(more as u64, "more place")),
    };
    Some(format!("{}: damaged at byte {offset}: {what}{more}", path.display()))
}
