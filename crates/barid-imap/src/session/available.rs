//! Availability of capabilities and of the input that belongs to them, for all clients and by the
//! name of the client.

use barid_query::search::{SearchKey, SearchNode, SearchProgram};

use super::Session;
use super::features::{ClientInput, FEATURES};
use crate::backend::{Account, Answer, Refusal};
use crate::command::{Command, MessageSet, SearchCommand};

/// Capabilities that clients enable and then cannot use. "Microsoft Office 365" enables UIDONLY and
/// goes on with sequence numbers.
const QUIRKS: &[(&str, &str)] = &[("Microsoft Office 365", "UIDONLY")];

impl<A: Account> Session<A> {
    /// Takes note of the parameters of the client's ID, also of one sent before login.
    pub fn set_client_id(&mut self, parameters: Vec<(String, Option<String>)>) {
        self.client_id = parameters;
        let name = self.client_id.iter().find(|(field, _)| field.eq_ignore_ascii_case("name"));
        let Some(name) = name.and_then(|(_, name)| name.as_deref()) else {
            return self.disabled_for_client.clear();
        };
        let known = QUIRKS.iter().filter(|(client, _)| client.eq_ignore_ascii_case(name));
        let known = known.map(|(_, capability)| (*capability).to_owned());
        self.disabled_for_client = known.chain(self.settings.disabled_for.of(name)).collect();
    }

    /// Returns `true` if a capability is disabled for the user or the client.
    pub(super) fn is_disabled(&self, capability: &str) -> bool {
        let disabled = self.settings.disabled.iter().chain(&self.disabled_for_client);
        disabled.into_iter().any(|name| name.eq_ignore_ascii_case(capability))
    }

    /// Refuses input of a capability that is not offered.
    pub(super) fn check_offered(&self, input: ClientInput<'_>) -> Answer<()> {
        for feature in FEATURES.iter().filter(|feature| (feature.is_used)(&input)) {
            let is_offered = feature.in_rev2 && self.enabled.rev2
                || feature.of.iter().any(|name| self.offers(name));
            if !is_offered {
                return Err(Refusal::bad(&format!("{} is not available", feature.of[0])));
            }
        }
        Ok(())
    }

    /// Refuses a command whose capability is not offered, and one with sequence numbers after
    /// ENABLE UIDONLY (RFC 9586 §3).
    pub(super) fn check_available(&self, command: &Command) -> Answer<()> {
        self.check_offered(ClientInput::Command(command))?;
        match self.enabled.uid_only && uses_numbers(command) {
            true => Err(Refusal::new(Refusal::UID_REQUIRED, "Use UIDs after ENABLE UIDONLY")),
            false => Ok(()),
        }
    }

    /// Returns `true` if responses may have what belongs to a capability that IMAP4rev2 includes.
    pub(super) fn offers_or_rev2(&self, capability: &str) -> bool {
        self.enabled.rev2 || self.offers(capability)
    }
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
