//! The input that belongs to each capability: commands, arguments, and messages of APPEND.

use barid_query::SortKey;
use barid_query::ThreadAlgorithm;
use barid_query::search::{DateColumn, SearchKey, SearchNode};

use crate::command::{
    AppendMessage, AppendPart, Command, ListCommand, MessageSet, NotifyEvents, SearchCommand,
    StatusItem,
};
use crate::fetch::FetchItem;

/// Input of a client.
#[derive(Clone, Copy)]
pub(super) enum ClientInput<'i> {
    /// A command.
    Command(&'i Command),
    /// The beginning of a message of APPEND or REPLACE.
    Message(&'i AppendMessage),
    /// A part of a message.
    Part(&'i AppendPart),
}

/// Input that a server without a capability does not know.
pub(super) struct Feature {
    /// The capabilities; each one alone brings it.
    pub(super) of: &'static [&'static str],
    /// `true` if IMAP4rev2 has it, whose clients need no other capability for it.
    pub(super) in_rev2: bool,
    /// Returns `true` if an input has it.
    pub(super) is_used: fn(&ClientInput<'_>) -> bool,
}

/// A feature of IMAP4rev2, too.
const fn rev2(of: &'static [&'static str], is_used: fn(&ClientInput<'_>) -> bool) -> Feature {
    Feature { of, in_rev2: true, is_used }
}

/// A feature of capabilities only.
const fn of(of: &'static [&'static str], is_used: fn(&ClientInput<'_>) -> bool) -> Feature {
    Feature { of, in_rev2: false, is_used }
}

/// All features. A capability without a row changes responses only.
pub(super) const FEATURES: &[Feature] = &[
    rev2(&["ID"], |input| matches!(input, ClientInput::Command(Command::Id(_)))),
    rev2(&["ENABLE"], |input| matches!(input, ClientInput::Command(Command::Enable(_)))),
    rev2(&["IDLE"], |input| matches!(input, ClientInput::Command(Command::Idle))),
    rev2(&["NAMESPACE"], |input| matches!(input, ClientInput::Command(Command::Namespace))),
    rev2(&["UNSELECT"], |input| matches!(input, ClientInput::Command(Command::Unselect))),
    rev2(&["UIDPLUS"], |input| matches!(input, ClientInput::Command(Command::Expunge(Some(_))))),
    rev2(&["MOVE"], |input| {
        matches!(input, ClientInput::Command(Command::Copy { moves: true, .. }))
    }),
    of(&["COMPRESS=DEFLATE"], |input| matches!(input, ClientInput::Command(Command::Compress))),
    of(&["UNAUTHENTICATE"], |input| matches!(input, ClientInput::Command(Command::Unauthenticate))),
    of(&["UIDBATCHES"], |input| matches!(input, ClientInput::Command(Command::UidBatches(..)))),
    of(&["METADATA"], |input| {
        let ClientInput::Command(command) = input else { return false };
        matches!(command, Command::GetMetadata { .. } | Command::SetMetadata(..))
            || notifies(input, |events| events.metadata || events.server_metadata)
    }),
    of(&["ACL"], |input| {
        use Command::{GetAcl, ListRights, MyRights, SetAcl};
        let ClientInput::Command(command) = input else { return false };
        matches!(command, MyRights(_) | GetAcl(_) | ListRights(..) | SetAcl(..))
    }),
    of(&["QUOTA"], |input| {
        use Command::{GetQuota, GetQuotaRoot, SetQuota};
        let ClientInput::Command(command) = input else { return false };
        matches!(command, GetQuota(_) | GetQuotaRoot(_) | SetQuota(..))
    }),
    of(&["NOTIFY"], |input| matches!(input, ClientInput::Command(Command::Notify(_)))),
    of(&["MULTISEARCH"], |input| matches!(input, ClientInput::Command(Command::MultiSearch(_)))),
    // Names of mailboxes.
    rev2(&["LIST-EXTENDED"], |input| list(input, |list| list.is_extended)),
    rev2(&["LIST-STATUS"], |input| list(input, |list| !list.returns.status.is_empty())),
    of(&["LIST-METADATA"], |input| list(input, |list| !list.returns.metadata.is_empty())),
    of(&["LIST-MYRIGHTS"], |input| list(input, |list| list.returns.my_rights)),
    of(&["SPECIAL-USE"], |input| {
        list(input, |list| list.selection.special_use || list.returns.special_use)
    }),
    of(&["CREATE-SPECIAL-USE"], |input| {
        let ClientInput::Command(Command::Create { special_use, .. }) = input else { return false };
        !special_use.is_empty()
    }),
    rev2(&["STATUS=SIZE"], |input| asks_status(input, StatusItem::Size)),
    rev2(&["IMAP4rev2", "QUOTA=RES-MESSAGE"], |input| asks_status(input, StatusItem::Deleted)),
    of(&["QUOTA=RES-STORAGE"], |input| asks_status(input, StatusItem::DeletedStorage)),
    of(&["APPENDLIMIT"], |input| asks_status(input, StatusItem::AppendLimit)),
    of(&["OBJECTID"], |input| asks_status(input, StatusItem::MailboxId)),
    // Mod-sequences.
    of(&["CONDSTORE"], |input| {
        has_key(input, |key| matches!(key, SearchKey::ModSeq(_)))
            || fetches(input, |item| matches!(item, FetchItem::ModSeq))
            || asks_status(input, StatusItem::HighestModSeq)
            || match input {
                ClientInput::Command(Command::Select { parameters, .. }) => parameters.condstore,
                ClientInput::Command(Command::Fetch(fetch)) => fetch.changed_since.is_some(),
                ClientInput::Command(Command::Store(store)) => store.unchanged_since.is_some(),
                _ => false,
            }
    }),
    of(&["QRESYNC"], |input| match input {
        ClientInput::Command(Command::Select { parameters, .. }) => parameters.qresync.is_some(),
        ClientInput::Command(Command::Fetch(fetch)) => fetch.vanished,
        _ => false,
    }),
    // Items of FETCH.
    rev2(&["BINARY"], |input| fetches(input, |item| item.binary_section().is_some())),
    of(&["PREVIEW"], |input| fetches(input, |item| matches!(item, FetchItem::Preview { .. }))),
    of(&["SAVEDATE"], |input| {
        let is_date = |key: &SearchKey| {
            matches!(key, SearchKey::Date(DateColumn::Saved, _) | SearchKey::SaveDateSupported)
        };
        fetches(input, |item| matches!(item, FetchItem::SaveDate)) || has_key(input, is_date)
    }),
    of(&["OBJECTID"], |input| {
        fetches(input, |item| matches!(item, FetchItem::EmailId | FetchItem::ThreadId))
            || has_key(input, |key| matches!(key, SearchKey::EmailId(_) | SearchKey::ThreadId(_)))
    }),
    of(&["PARTIAL"], |input| {
        let ClientInput::Command(Command::Fetch(fetch)) = input else { return false };
        fetch.partial.is_some()
    }),
    // Searches.
    of(&["WITHIN"], |input| {
        has_key(input, |key| matches!(key, SearchKey::Older(_) | SearchKey::Younger(_)))
    }),
    rev2(&["ESEARCH"], |input| search(input).is_some_and(|search| search.returns.is_some())),
    of(&["ESORT"], |input| sort(input).is_some_and(|sort| sort.returns.is_some())),
    rev2(&["SEARCHRES"], |input| {
        let saves = |command: &SearchCommand| command.returns.is_some_and(|returns| returns.save);
        search(input).is_some_and(saves)
            || sort(input).is_some_and(saves)
            || has_key(input, |key| matches!(key, SearchKey::Saved))
            || matches!(set_of(input), Some(MessageSet::Saved(_)))
    }),
    of(&["PARTIAL", "CONTEXT=SEARCH"], |input| {
        search(input).is_some_and(|search| search.partial.is_some_and(|(first, _)| first > 0))
    }),
    of(&["PARTIAL", "CONTEXT=SORT"], |input| {
        sort(input).is_some_and(|sort| sort.partial.is_some_and(|(first, _)| first > 0))
    }),
    of(&["PARTIAL"], |input| {
        let is_from_end = |command: &SearchCommand| command.partial.is_some_and(|(a, _)| a < 0);
        search(input).is_some_and(is_from_end) || sort(input).is_some_and(is_from_end)
    }),
    of(&["CONTEXT=SEARCH"], |input| {
        search(input).is_some_and(|search| search.update || search.has_context_hint)
    }),
    of(&["CONTEXT=SORT"], |input| {
        sort(input).is_some_and(|sort| sort.update || sort.has_context_hint)
    }),
    of(&["CONTEXT=SEARCH", "CONTEXT=SORT"], |input| {
        matches!(input, ClientInput::Command(Command::CancelUpdate(_)))
    }),
    of(&["MESSAGELIMIT"], |input| {
        has_key(input, |key| matches!(key, SearchKey::UidAfter(_) | SearchKey::UidBefore(_)))
    }),
    of(&["SORT"], |input| sort(input).is_some()),
    of(&["SORT=DISPLAY"], |input| {
        let is_display =
            |(key, _): &(SortKey, bool)| matches!(key, SortKey::DisplayFrom | SortKey::DisplayTo);
        let ClientInput::Command(Command::Sort(sort, _)) = input else { return false };
        sort.0.iter().any(is_display)
    }),
    of(&["THREAD=REFERENCES"], |input| threads(input, ThreadAlgorithm::References)),
    of(&["THREAD=REFS"], |input| threads(input, ThreadAlgorithm::Refs)),
    of(&["THREAD=ORDEREDSUBJECT"], |input| threads(input, ThreadAlgorithm::OrderedSubject)),
    // Messages of APPEND.
    of(&["BINARY"], |input| {
        matches!(input, ClientInput::Part(AppendPart::Literal { is_binary: true, .. }))
    }),
    of(&["MULTIAPPEND"], |input| {
        matches!(input, ClientInput::Message(AppendMessage { is_first: false, .. }))
    }),
    of(&["CATENATE"], |input| {
        matches!(input, ClientInput::Message(AppendMessage { is_joined: true, .. }))
    }),
    of(&["UTF8=ACCEPT"], |input| {
        matches!(input, ClientInput::Message(AppendMessage { is_utf8: true, .. }))
    }),
    of(&["REPLACE"], |input| {
        matches!(input, ClientInput::Message(AppendMessage { replaces: true, .. }))
    }),
];

fn list(input: &ClientInput<'_>, uses: fn(&ListCommand) -> bool) -> bool {
    matches!(input, ClientInput::Command(Command::List(list)) if uses(list))
}

fn asks_status(input: &ClientInput<'_>, item: StatusItem) -> bool {
    match input {
        ClientInput::Command(Command::Status(_, items)) => items.contains(&item),
        ClientInput::Command(Command::List(list)) => list.returns.status.contains(&item),
        _ => false,
    }
}

fn fetches(input: &ClientInput<'_>, is_it: fn(&FetchItem) -> bool) -> bool {
    match input {
        ClientInput::Command(Command::Fetch(fetch)) => fetch.items.items().iter().any(is_it),
        ClientInput::Command(Command::Notify(Some(set))) => {
            let items = set.groups.iter().filter_map(|group| group.events.items.as_ref());
            items.flat_map(|items| items.items()).any(is_it)
        }
        _ => false,
    }
}

fn notifies(input: &ClientInput<'_>, is_it: fn(&NotifyEvents) -> bool) -> bool {
    let ClientInput::Command(Command::Notify(Some(set))) = input else { return false };
    set.groups.iter().any(|group| is_it(&group.events))
}

fn search<'i>(input: &ClientInput<'i>) -> Option<&'i SearchCommand> {
    match input {
        ClientInput::Command(Command::Search(search)) => Some(search),
        ClientInput::Command(Command::MultiSearch(multi)) => Some(&multi.search),
        _ => None,
    }
}

fn sort<'i>(input: &ClientInput<'i>) -> Option<&'i SearchCommand> {
    match input {
        ClientInput::Command(Command::Sort(_, search)) => Some(search),
        _ => None,
    }
}

fn threads(input: &ClientInput<'_>, algorithm: ThreadAlgorithm) -> bool {
    matches!(input, ClientInput::Command(Command::Thread(by, _)) if *by == algorithm)
}

fn has_key(input: &ClientInput<'_>, is_it: fn(&SearchKey) -> bool) -> bool {
    let ClientInput::Command(command) = input else { return false };
    let program = match command {
        Command::Search(search) | Command::Sort(_, search) | Command::Thread(_, search) => {
            &search.program
        }
        Command::MultiSearch(multi) => &multi.search.program,
        _ => return false,
    };
    let is_node = |node: &SearchNode| matches!(node, SearchNode::Key(key) if is_it(key));
    program.nodes().iter().any(is_node)
}

fn set_of<'i>(input: &ClientInput<'i>) -> Option<&'i MessageSet> {
    let ClientInput::Command(command) = input else { return None };
    match command {
        Command::Fetch(fetch) => Some(&fetch.set),
        Command::Store(store) => Some(&store.set),
        Command::Copy { set, .. } | Command::Expunge(Some(set)) => Some(set),
        _ => None,
    }
}
