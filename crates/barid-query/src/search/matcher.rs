//! Programs prepared for a mailbox, and their evaluation.
//!
//! Keys are evaluated in the order of their cost. After each cost the nodes are computed from the
//! front, with unevaluated keys as unknown, and keys that can no longer change the answer are
//! skipped.

use barid_types::{Flag, KeywordTable};

use super::cost::Cost;
use super::fold::Needle;
use super::header::{push_addresses, push_subject, push_value};
use super::normal::{children, normal};
use super::number_set::ranges_contain;
use super::pattern_test::{PatternTest, search_attachments, search_parts};
use super::program::DateRange;
use super::scan::{Buffers, Want, has_attachment, scan};
use super::texts::{TextKind, TextScope, TextTest};
use super::view::{CachedField, FieldText, SearchView};
use super::{AddressField, DateColumn, Day, Facts, SearchKey, SearchNode, SearchProgram};

/// The state of the mailbox for which a program is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct MatcherContext<'a> {
    /// The current time in seconds since 1970, from which ages count.
    pub now: i64,
    /// The greatest sequence number; 0 for an empty mailbox.
    pub exists: u32,
    /// The greatest UID; 0 for an empty mailbox.
    pub greatest_uid: u32,
    /// The names of the keywords.
    pub keywords: &'a KeywordTable,
    /// The UIDs that the last search saved, as ascending ranges.
    pub saved: &'a [(u32, u32)],
}

/// A program prepared for one mailbox.
#[derive(Clone, Debug)]
pub struct Matcher {
    nodes: Vec<Op>,
    /// The answer, if it is the same for every message.
    constant: Option<bool>,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Test(Box<Test>),
    Join(SearchNode),
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Flag(Flag),
    Keyword(u64),
    Seq(Vec<(u32, u32)>),
    Uid(Vec<(u32, u32)>),
    Date(DateColumn, DateRange),
    ArrivedBy(i64),
    ArrivedFrom(i64),
    Larger(u64),
    Smaller(u64),
    ModSeq(u64),
    Address(AddressField, Needle),
    Subject(Needle),
    CachedHeader(CachedField, Needle),
    Header(String, Needle),
    Text { needle: Needle, in_headers: bool },
    Pattern(Box<PatternTest>),
    Attachment,
}

/// Buffers that are reused for each message.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<Option<bool>>,
    needed: Vec<bool>,
    buffers: Buffers,
}

impl Matcher {
    /// Prepares a program.
    #[must_use]
    pub fn new(program: &SearchProgram, context: &MatcherContext<'_>) -> Self {
        match normal(program) {
            Err(constant) => Self { nodes: Vec::new(), constant: Some(constant) },
            Ok(program) => {
                let op = |node: &SearchNode| match node {
                    SearchNode::Key(key) => Op::Test(Box::new(Test::new(key, context))),
                    node => Op::Join(node.clone()),
                };
                Self { nodes: program.nodes().iter().map(op).collect(), constant: None }
            }
        }
    }

    /// Returns the answer for every message, if no message is asked for it; `None` otherwise.
    #[must_use]
    pub fn constant(&self) -> Option<bool> {
        self.constant
    }

    /// Returns `true` if there are keys of this cost.
    #[must_use]
    pub fn asks(&self, cost: Cost) -> bool {
        self.nodes.iter().any(|op| matches!(op, Op::Test(test) if test.asks(cost)))
    }

    pub(super) fn nodes(&self) -> &[Op] {
        &self.nodes
    }

    /// Returns the keys that compare texts, of which an index may know the answers. Texts that are
    /// empty or in a field that no index has are left out.
    pub fn texts(&self) -> impl Iterator<Item = TextTest<'_>> {
        self.nodes.iter().enumerate().filter_map(|(node, op)| match op {
            Op::Test(test) => {
                let (scope, needle, is_exact) = test.text()?;
                let needle = needle.folded();
                let is_extracted = test.asks(Cost::Attachments);
                (!needle.is_empty()).then(|| TextTest {
                    is_extracted,
                    ..TextTest::new(node, scope, needle, is_exact)
                })
            }
            Op::Join(_) => None,
        })
    }

    /// Returns `true` if a message matches; `None` if that depends on data that the view does not
    /// have.
    ///
    /// O(nodes) for each cost that is needed, and one pass over the message if its text is
    /// searched, for any number of texts.
    pub fn matches(&self, view: &mut dyn SearchView, scratch: &mut Scratch) -> Option<bool> {
        if self.constant.is_some() {
            return self.constant;
        }
        let Scratch { values, needed, buffers } = scratch;
        values.clear();
        values.extend(self.nodes.iter().enumerate().map(|(at, op)| match op {
            Op::Test(test) if test.cost() > Cost::Facts => view.indexed(at),
            _ => None,
        }));
        needed.clear();
        needed.resize(self.nodes.len(), true);
        if values.iter().any(Option::is_some)
            && let Some(answer) = self.settle(values, needed)
        {
            return answer;
        }
        for cost in Cost::ALL {
            if self.ask(cost, view, values, needed, buffers)
                && let Some(answer) = self.settle(values, needed)
            {
                return answer;
            }
        }
        None
    }

    /// Computes the operators; returns the answer if it is known, and otherwise marks what it can
    /// still depend on.
    fn settle(&self, values: &mut [Option<bool>], needed: &mut [bool]) -> Option<Option<bool>> {
        self.join(values);
        match values.last() {
            Some(None) => {
                self.mark_needed(values, needed);
                None
            }
            answer => Some(answer.copied().flatten()),
        }
    }

    /// Evaluates the needed keys of one cost. Returns `true` if there were any.
    fn ask(
        &self,
        cost: Cost,
        view: &mut dyn SearchView,
        values: &mut [Option<bool>],
        needed: &[bool],
        buffers: &mut Buffers,
    ) -> bool {
        let tests = || {
            self.nodes.iter().enumerate().filter_map(|(at, op)| match op {
                Op::Test(test) if test.asks(cost) && needed[at] => Some((at, &**test)),
                _ => None,
            })
        };
        match cost {
            Cost::Text => return ask_texts(tests().collect(), view, values, buffers),
            Cost::Attachments => return ask_attachments(tests().collect(), view, values),
            Cost::Facts | Cost::Fields | Cost::Message => {}
        }
        let mut any = false;
        for (at, test) in tests() {
            any = true;
            values[at] = test.ask(view, buffers);
        }
        any
    }

    /// Computes the operators.
    fn join(&self, values: &mut [Option<bool>]) {
        for (at, op) in self.nodes.iter().enumerate() {
            let Op::Join(node) = op else { continue };
            let of = |id: &u32| values[*id as usize];
            values[at] = match node {
                SearchNode::Not(id) => of(id).map(|value| !value),
                SearchNode::And(ids) => joined(ids.iter().map(of), true),
                SearchNode::Or(ids) => joined(ids.iter().map(of), false),
                SearchNode::Key(_) => None,
            };
        }
    }

    /// Marks the nodes on which the answer can still depend.
    fn mark_needed(&self, values: &[Option<bool>], needed: &mut [bool]) {
        needed.fill(false);
        if let Some(root) = needed.last_mut() {
            *root = true;
        }
        for (at, op) in self.nodes.iter().enumerate().rev() {
            if let Op::Join(node) = op
                && needed[at]
                && values[at].is_none()
            {
                children(node).iter().for_each(|id| needed[*id as usize] = true);
            }
        }
        for (needed, value) in needed.iter_mut().zip(values) {
            *needed &= value.is_none();
        }
    }
}

/// Returns the value of an And, which is true unless one operand is false, or of an Or, which is
/// false unless one operand is true.
fn joined(values: impl Iterator<Item = Option<bool>>, neutral: bool) -> Option<bool> {
    let mut joined = Some(neutral);
    for value in values {
        match value {
            Some(value) if value == neutral => {}
            Some(value) => return Some(value),
            None => joined = None,
        }
    }
    joined
}

fn ask_texts(
    tests: Vec<(usize, &Test)>,
    view: &mut dyn SearchView,
    values: &mut [Option<bool>],
    buffers: &mut Buffers,
) -> bool {
    let Some(message) = view.message().filter(|_| !tests.is_empty()) else {
        return false;
    };
    let mut wants = Vec::new();
    for (_, test) in &tests {
        if let Test::Text { needle, in_headers } = test {
            wants.push(Want { needle, in_headers: *in_headers, is_found: false });
        }
    }
    if !wants.is_empty() {
        scan(message, &mut wants, buffers);
    }
    let patterns = patterns(&tests);
    let mut of_patterns = search_parts(message, &patterns).into_iter();
    let mut found = wants.iter();
    for (at, test) in tests {
        values[at] = match test {
            Test::Attachment => Some(has_attachment(message)),
            // Where no file name has it, the texts of attachments are asked.
            Test::Pattern(pattern) => {
                of_patterns.next().filter(|is_found| *is_found || !pattern.is_in_attachments())
            }
            _ => found.next().map(|want| want.is_found),
        };
    }
    true
}

fn ask_attachments(
    tests: Vec<(usize, &Test)>,
    view: &mut dyn SearchView,
    values: &mut [Option<bool>],
) -> bool {
    if tests.is_empty() {
        return false;
    }
    let Some(found) = search_attachments(view, &patterns(&tests)) else { return false };
    for ((at, _), found) in tests.iter().zip(found) {
        values[*at] = Some(found);
    }
    true
}

fn patterns<'t>(tests: &[(usize, &'t Test)]) -> Vec<&'t PatternTest> {
    let pattern = |(_, test): &(usize, &'t Test)| match test {
        Test::Pattern(pattern) => Some(&**pattern),
        _ => None,
    };
    tests.iter().filter_map(pattern).collect()
}

impl Test {
    fn new(key: &SearchKey, context: &MatcherContext<'_>) -> Self {
        let MatcherContext { now, exists, greatest_uid, keywords, saved } = context;
        match key {
            // A program in normal form contains none of these.
            SearchKey::All => Self::ArrivedFrom(i64::MIN),
            SearchKey::SaveDateSupported
            | SearchKey::EmailId(_)
            | SearchKey::ThreadId(_)
            | SearchKey::ThreadOf(_)
            | SearchKey::InMailbox(_) => Self::Uid(Vec::new()),
            SearchKey::Flag(flag) => Self::Flag(*flag),
            SearchKey::Keyword(keyword) => {
                Self::Keyword(keywords.slot(keyword).map_or(0, |slot| 1 << slot))
            }
            SearchKey::Seq(set) => Self::Seq(set.resolve(*exists)),
            SearchKey::Uid(_) | SearchKey::UidAfter(_) | SearchKey::UidBefore(_) => {
                Self::Uid(key.uid_ranges(*greatest_uid).unwrap_or_default())
            }
            SearchKey::Saved => Self::Uid(saved.to_vec()),
            SearchKey::Date(column, range) => Self::Date(*column, *range),
            SearchKey::Older(seconds) => Self::ArrivedBy(now.saturating_sub((*seconds).into())),
            SearchKey::Younger(seconds) => Self::ArrivedFrom(now.saturating_sub((*seconds).into())),
            SearchKey::Larger(size) => Self::Larger(*size),
            SearchKey::Smaller(size) => Self::Smaller(*size),
            SearchKey::ModSeq(modseq) => Self::ModSeq(*modseq),
            SearchKey::Address(field, text) => Self::Address(*field, Needle::new(text)),
            SearchKey::Subject(text) => Self::Subject(Needle::new(text)),
            SearchKey::Header(name, text) => match CachedField::named(name) {
                Some(field) => Self::CachedHeader(field, Needle::new(text)),
                None => Self::Header(name.clone(), Needle::new(text)),
            },
            SearchKey::Body(text) => Self::Text { needle: Needle::new(text), in_headers: false },
            SearchKey::Text(text) => Self::Text { needle: Needle::new(text), in_headers: true },
            SearchKey::Pattern(place, pattern) => {
                Self::Pattern(Box::new(PatternTest::new(place, pattern)))
            }
            SearchKey::MediaType(text) => Self::Pattern(Box::new(PatternTest::media_type(text))),
            SearchKey::Attachment => Self::Attachment,
        }
    }

    /// Returns the texts that it looks in, the one that it looks for, and `true` if that is all.
    fn text(&self) -> Option<(TextScope, &Needle, bool)> {
        let (scope, needle) = match self {
            Self::Address(field, needle) => (TextScope::of_address(*field)?, needle),
            Self::Subject(needle) => (TextScope::Kind(TextKind::Subject), needle),
            Self::Text { needle, in_headers: false } => (TextScope::Kind(TextKind::Body), needle),
            Self::Text { needle, in_headers: true } => (TextScope::Message, needle),
            // A field as it stands, which is among the lines of the header.
            Self::CachedHeader(field, needle) => {
                return Some((TextScope::of_header(field.name())?, needle, false));
            }
            Self::Header(name, needle) => {
                return Some((TextScope::of_header(name)?, needle, false));
            }
            Self::Pattern(pattern) => {
                let (scope, needle) = pattern.required()?;
                // File names alone are not all that an index has of attachments.
                return Some((scope, needle, pattern.is_in_attachments() && pattern.is_plain()));
            }
            _ => return None,
        };
        Some((scope, needle, true))
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Address(..) | Self::Subject(_) | Self::CachedHeader(..) => Cost::Fields,
            Self::Header(..) | Self::Larger(_) | Self::Smaller(_) => Cost::Message,
            Self::Text { .. } | Self::Attachment => Cost::Text,
            Self::Pattern(pattern) => pattern.cost(),
            _ => Cost::Facts,
        }
    }

    /// Returns `true` if it is asked at this cost: at its own, or later.
    fn asks(&self, cost: Cost) -> bool {
        let is_in_attachments = || match self {
            Self::Pattern(pattern) => pattern.is_in_attachments(),
            _ => false,
        };
        self.cost() == cost || cost == Cost::Attachments && is_in_attachments()
    }

    /// Returns the answer for a message, if the view can provide it; texts are evaluated together.
    fn ask(&self, view: &mut dyn SearchView, buffers: &mut Buffers) -> Option<bool> {
        let facts = *view.facts();
        match self {
            Self::Flag(flag) => Some(facts.flags.contains(*flag)),
            Self::Keyword(mask) => Some(facts.keywords.0 & mask != 0),
            Self::Seq(ranges) => Some(ranges_contain(ranges, facts.seq)),
            Self::Uid(ranges) => Some(ranges_contain(ranges, facts.uid.get())),
            Self::Date(column, range) => {
                Some(day(*column, &facts).is_some_and(|day| range.contains(day)))
            }
            Self::ArrivedBy(limit) => Some(facts.internal_date.unix_seconds <= *limit),
            Self::ArrivedFrom(limit) => Some(facts.internal_date.unix_seconds >= *limit),
            Self::ModSeq(modseq) => Some(facts.modseq.get() >= *modseq),
            Self::Larger(limit) => size_is(view, |size| size > *limit),
            Self::Smaller(limit) => size_is(view, |size| size < *limit),
            Self::Address(field, needle) => view.any_field((*field).into(), &mut |text| {
                is_in_field(text, needle, push_addresses, buffers)
            }),
            Self::Subject(needle) => view.any_field(CachedField::Subject, &mut |text| {
                is_in_field(text, needle, push_subject, buffers)
            }),
            Self::CachedHeader(field, needle) => {
                view.any_field(*field, &mut |text| is_in_field(text, needle, push_value, buffers))
            }
            Self::Header(name, needle) => {
                let message = view.message()?;
                let mut fields = barid_message::fields(message)
                    .filter(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
                let is_in = |field: barid_message::RawField<'_>| {
                    let text = FieldText::Padded(field.padded);
                    is_in_field(text, needle, push_value, buffers) == Some(true)
                };
                Some(!barid_message::is_owned_field(name.as_bytes()) && fields.any(is_in))
            }
            Self::Pattern(pattern) => pattern.ask_field(view),
            Self::Text { .. } | Self::Attachment => None,
        }
    }
}

impl From<AddressField> for CachedField {
    fn from(field: AddressField) -> Self {
        match field {
            AddressField::From => Self::From,
            AddressField::To => Self::To,
            AddressField::Cc => Self::Cc,
            AddressField::Bcc => Self::Bcc,
        }
    }
}

/// Returns the day of a message by the clock of its own time zone.
fn day(column: DateColumn, facts: &Facts) -> Option<Day> {
    let internal = facts.internal_date;
    let internal = Day::in_zone(internal.unix_seconds, internal.zone_minutes);
    let sent = facts.sent_date.map(|sent| Day::in_zone(sent.unix_seconds, sent.zone_minutes));
    match column {
        DateColumn::Internal | DateColumn::Saved => Some(internal),
        DateColumn::Sent => sent,
        DateColumn::Shown => Some(sent.unwrap_or(internal)),
    }
}

/// Compares RFC822.SIZE; reads the message only if the bounds do not decide.
fn size_is(view: &mut dyn SearchView, holds: impl Fn(u64) -> bool) -> Option<bool> {
    let facts = *view.facts();
    let (least, most) = (holds(facts.size_least), holds(facts.size_most));
    if least == most {
        return Some(least);
    }
    Some(holds(barid_message::rfc822_size(view.message()?)))
}

/// Returns `true` if a field contains a text; `None` if that depends on trimmed white space.
fn is_in_field(
    text: FieldText<'_>,
    needle: &Needle,
    push: fn(&[u8], &mut Vec<u8>, &mut Vec<u8>),
    buffers: &mut Buffers,
) -> Option<bool> {
    if needle.is_empty() {
        return Some(true);
    }
    let (FieldText::Trimmed(raw) | FieldText::Padded(raw)) = text;
    buffers.folded.clear();
    push(raw, &mut buffers.line, &mut buffers.folded);
    let is_in = needle.is_in(&buffers.folded);
    let is_open = matches!(text, FieldText::Trimmed(_)) && needle.may_end_after(&buffers.folded);
    (is_in || !is_open).then_some(is_in)
}
