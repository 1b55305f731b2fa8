//! Availability of capabilities and of the commands that belong to them, for all clients and by the
//! name of the client.

use barid_query::search::{ReturnOptions, SearchKey, SearchNode, SearchProgram};

use super::Session;
use crate::backend::{Account, Answer, Refusal};
use crate::command::{Command, MessageSet, SearchCommand};

/// Capabilities that clients enable and then cannot use. "Microsoft Office 365" enables UIDONLY and
/// goes on with sequence numbers.
const QUIRKS: &[(&str, &str)] = &[("Microsoft Office 365", "UIDONLY")];

impl<A: Account> Session<A> {
    /// Takes note of the name of the client.
    pub(super) fn learn_client(&mut self) {
        let name = self.client_id.iter().find(|(field, _)| field.eq_ignore_ascii_case("name"));
        let name = name.and_then(|(_, name)| name.as_deref()).unwrap_or_default();
        let known = QUIRKS.iter().filter(|(client, _)| client.eq_ignore_ascii_case(name));
        let known = known.map(|(_, capability)| (*capability).to_owned());
        self.disabled_for_client = known.chain(self.settings.disabled_for.of(name)).collect();
    }

    pub(super) fn is_available(&self, capability: &str) -> bool {
        if capability.eq_ignore_ascii_case("UIDONLY") && !self.settings.offers_uid_only {
            return false;
        }
        let disabled = self.settings.disabled.iter().chain(&self.disabled_for_client);
        !disabled.into_iter().any(|name| name.eq_ignore_ascii_case(capability))
    }

    /// Refuses a command whose capability is not available, and one with sequence numbers after
    /// ENABLE UIDONLY (RFC 9586 §3).
    pub(super) fn check_available(&self, command: &Command) -> Answer<()> {
        let names = capabilities_of(command, self.enabled.rev2);
        if let Some(name) = names.into_iter().find(|name| !self.is_available(name)) {
            return Err(Refusal::bad(&format!("{name} is not available")));
        }
        match self.enabled.uid_only && uses_numbers(command) {
            true => Err(Refusal::new(Refusal::UID_REQUIRED, "Use UIDs after ENABLE UIDONLY")),
            false => Ok(()),
        }
    }
}

/// Returns the capabilities without which a command is not available; those of IMAP4rev2 are always
/// available to a client that has enabled it.
fn capabilities_of(command: &Command, rev2: bool) -> Vec<&'static str> {
    match command {
        Command::Idle if !rev2 => vec!["IDLE"],
        Command::Namespace if !rev2 => vec!["NAMESPACE"],
        Command::Unselect if !rev2 => vec!["UNSELECT"],
        Command::Enable(_) if !rev2 => vec!["ENABLE"],
        Command::Id(_) => vec!["ID"],
        Command::Expunge(Some(_)) if !rev2 => vec!["UIDPLUS"],
        Command::Copy { moves: true, .. } if !rev2 => vec!["MOVE"],
        Command::Select { parameters, .. } => {
            let qresync = parameters.qresync.as_ref().map(|_| "QRESYNC");
            qresync.into_iter().chain(parameters.condstore.then_some("CONDSTORE")).collect()
        }
        Command::Create { special_use, .. } if !special_use.is_empty() => {
            vec!["CREATE-SPECIAL-USE"]
        }
        Command::Search(search) => of_search(search, rev2),
        Command::Sort(_, search) => {
            let mut names = of_search(search, true);
            names.push("SORT");
            names.extend(search.returns.map(|_| "ESORT"));
            names
        }
        Command::Thread(algorithm, _) => vec![match algorithm {
            barid_query::ThreadAlgorithm::OrderedSubject => "THREAD=ORDEREDSUBJECT",
            barid_query::ThreadAlgorithm::References => "THREAD=REFERENCES",
            barid_query::ThreadAlgorithm::Refs => "THREAD=REFS",
        }],
        Command::Fetch(fetch) => fetch.partial.map(|_| "PARTIAL").into_iter().collect(),
        Command::MultiSearch(multi) => {
            let mut names = of_search(&multi.search, true);
            names.push("MULTISEARCH");
            names
        }
        Command::CancelUpdate(_) => vec!["CONTEXT=SEARCH"],
        Command::Notify(_) => vec!["NOTIFY"],
        Command::Replace { .. } => vec!["REPLACE"],
        Command::GetMetadata { .. } | Command::SetMetadata(..) => vec!["METADATA"],
        Command::MyRights(_)
        | Command::GetAcl(_)
        | Command::ListRights(..)
        | Command::SetAcl(..) => vec!["ACL"],
        Command::GetQuota(_) | Command::GetQuotaRoot(_) | Command::SetQuota(..) => vec!["QUOTA"],
        Command::UidBatches(..) => vec!["UIDBATCHES"],
        _ => Vec::new(),
    }
}

fn of_search(search: &SearchCommand, rev2: bool) -> Vec<&'static str> {
    let Some(ReturnOptions { save, .. }) = search.returns else { return Vec::new() };
    let mut names = Vec::new();
    if !rev2 {
        names.push("ESEARCH");
        names.extend(save.then_some("SEARCHRES"));
    }
    names.extend(search.partial.map(|_| "PARTIAL"));
    names.extend(search.update.then_some("CONTEXT=SEARCH"));
    names
}

/// Returns `true` if a command has a sequence number, or would be answered with one.
fn uses_numbers(command: &Command) -> bool {
    let in_set = |set: &MessageSet| !set.is_uid();
    let in_search = |search: &SearchCommand| !search.uid || has_numbers(&search.program);
    match command {
        Command::Fetch(fetch) => in_set(&fetch.set),
        Command::Store(store) => in_set(&store.set),
        Command::Copy { set, .. } => in_set(set),
        Command::Search(search) | Command::Sort(_, search) | Command::Thread(_, search) => {
            in_search(search)
        }
        Command::MultiSearch(multi) => has_numbers(&multi.search.program),
        Command::Replace { uid, .. } => !uid,
        Command::Select { parameters, .. } => {
            parameters.qresync.as_ref().is_some_and(|known| known.numbers.is_some())
        }
        _ => false,
    }
}

pub(super) fn has_numbers(program: &SearchProgram) -> bool {
    let is_number = |node: &SearchNode| matches!(node, SearchNode::Key(SearchKey::Seq(_)));
    program.nodes().iter().any(is_number)
}
