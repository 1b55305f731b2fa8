//! Commands on mailboxes as such.

use super::{Believed, Generator, NEW_NAMES};

/// Items of STATUS; HIGHESTMODSEQ needs a capability.
const STATUS: [&str; 5] = ["MESSAGES", "RECENT", "UIDNEXT", "UIDVALIDITY", "UNSEEN"];

impl Generator<'_> {
    pub(super) fn folder_command(&mut self) -> String {
        match self.rng.u32(0..20) {
            0..5 => self.list(),
            5..9 => {
                let name = self.mailbox_name();
                let items = self.status_items();
                format!("STATUS {} {items}", self.spelled(&name))
            }
            9 => format!("LSUB \"\" {}", self.list_pattern()),
            10..12 => {
                let verb = self.pick(&["SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE"]);
                let name = self.mailbox_name();
                format!("{verb} {}", self.spelled(&name))
            }
            12..15 => self.create(),
            15 => self.delete(),
            16 => self.rename(),
            17 => "NAMESPACE".to_owned(),
            18 if self.has("ENABLE") && self.has("CONDSTORE") => {
                self.has_condstore = true;
                "ENABLE CONDSTORE".to_owned()
            }
            _ => "NOOP".to_owned(),
        }
    }

    fn status_items(&mut self) -> String {
        let mut items = self.some(&STATUS, 50);
        if self.has("STATUS=SIZE") && self.one_in(3) {
            items.push("SIZE");
        }
        format!("({})", items.join(" "))
    }

    fn list(&mut self) -> String {
        let pattern = self.list_pattern();
        let reference = self.pick(&["\"\"", "\"\"", "\"\"", "lists/", "lists"]);
        if !self.has("LIST-EXTENDED") || self.rng.bool() {
            return format!("LIST {reference} {pattern}");
        }
        let select = self.pick(&["", "", "(SUBSCRIBED) ", "(SUBSCRIBED RECURSIVEMATCH) "]);
        let patterns = if self.one_in(3) {
            format!("({pattern} {})", self.list_pattern())
        } else {
            pattern.to_owned()
        };
        let mut options = Vec::new();
        if self.rng.bool() {
            options.push("CHILDREN".to_owned());
        }
        if self.one_in(3) {
            options.push("SUBSCRIBED".to_owned());
        }
        if self.has("SPECIAL-USE") && self.one_in(4) {
            options.push("SPECIAL-USE".to_owned());
        }
        if self.has("LIST-STATUS") && self.one_in(4) {
            options.push(format!("STATUS {}", self.status_items()));
        }
        format!("LIST {select}{reference} {patterns} RETURN ({})", options.join(" "))
    }

    fn list_pattern(&mut self) -> &'static str {
        self.pick(&[
            "*", "*", "%", "%/%", "lists/%", "lists*", "INBOX", "inbox", "*dev*", "A%", "none",
            "\"\"",
        ])
    }

    fn create(&mut self) -> String {
        let name =
            if self.one_in(5) { self.mailbox_name() } else { self.pick(&NEW_NAMES).to_owned() };
        if self.boxes.iter().all(|known| known.name != name) {
            self.boxes.push(Believed { name: name.clone(), uids: Vec::new(), uidnext: 1 });
        }
        format!("CREATE {}", self.spelled(&name))
    }

    fn delete(&mut self) -> String {
        let name = self.mailbox_name();
        // Deleting the selected mailbox or one with children is left to scripts made for it.
        let is_selected = self.selected.is_some_and(|index| self.boxes[index].name == name);
        let prefix = format!("{name}/");
        let has_children = self.boxes.iter().any(|known| known.name.starts_with(&prefix));
        if is_selected || has_children {
            return "NOOP".to_owned();
        }
        let kept = self.selected.map(|index| self.boxes[index].name.clone());
        if name != "INBOX" {
            self.boxes.retain(|known| known.name != name);
        }
        self.selected =
            kept.and_then(|kept| self.boxes.iter().position(|known| known.name == kept));
        format!("DELETE {}", self.spelled(&name))
    }

    fn rename(&mut self) -> String {
        let (from, to) = (self.mailbox_name(), self.pick(&NEW_NAMES).to_owned());
        let is_selected = self.selected.is_some_and(|index| self.boxes[index].name == from);
        if is_selected || from == "INBOX" || to.starts_with(&format!("{from}/")) {
            return "NOOP".to_owned();
        }
        if self.boxes.iter().all(|known| known.name != to)
            && let Some(known) = self.boxes.iter_mut().find(|known| known.name == from)
        {
            known.name.clone_from(&to);
        }
        format!("RENAME {} {}", self.spelled(&from), self.spelled(&to))
    }
}
