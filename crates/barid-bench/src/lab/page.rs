//! The page for people: `summary.md`.

use super::{Machine, Table};

/// The circumstances of the figures: mail, programs, machine, options.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Descriptions of the mail, one line each.
    pub(crate) mail: Vec<String>,
    /// Number of timed rounds.
    pub(crate) times: u32,
    /// The state of the page cache before each timed step.
    pub(crate) page_cache: &'static str,
    pub(crate) barid: String,
    pub(crate) peers: Vec<String>,
    pub(crate) machine: Machine,
    /// The command lines of barid; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// A page in Markdown.
pub(crate) struct Page {
    pub(crate) text: String,
}

impl Page {
    /// Begins a page; an incomplete bench gets a warning at the top.
    pub(crate) fn new(title: &str, complete: bool) -> Self {
        let mut page = Self { text: format!("# {title}\n\n") };
        if !complete {
            page.line("**Not complete:** the bench ended before its last run.\n");
        }
        page
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.extend([line, "\n"]);
    }

    /// Adds an item of a list.
    pub(crate) fn item(&mut self, item: &str) {
        self.text.extend(["- ", item, "\n"]);
    }

    /// Adds the list of facts.
    pub(crate) fn facts(&mut self, facts: &Facts) {
        facts.mail.iter().for_each(|mail| self.item(mail));
        self.item(&format!(
            "Runs: {} of each, in turn; page cache {}",
            facts.times, facts.page_cache
        ));
        self.item(&format!("Machine: {}", facts.machine.text()));
        self.item(&format!("Program: {}", facts.barid));
        facts.peers.iter().for_each(|peer| self.item(&format!("Compared with: {peer}")));
        facts.notes.iter().for_each(|note| self.item(note));
    }

    /// Adds a section: a heading, a caption, and the table.
    pub(crate) fn section(&mut self, heading: &str, about: &str, table: &Table) {
        self.line(&format!("## {heading}\n\n{about}\n{}", table.markdown()));
    }

    /// Adds the section of the bars, if there are any, and the blank line between list and
    /// sections.
    pub(crate) fn bars(&mut self, bars: &Table) {
        if !bars.is_empty() {
            self.line(&format!("\n## Bars\n\n{}", bars.markdown()));
        }
        self.line("");
    }

    /// Adds the section of the commands.
    pub(crate) fn commands(&mut self, commands: &[String]) {
        self.line(&format!("## Commands\n\n```\n{}\n```", commands.join("\n")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_list_and_sections() {
        let mut table = Table::new(1, ["work", "s"]);
        let mut page = Page::new("A bench", false);
        page.item("Mail: none");
        page.bars(&table);
        table.row(vec!["a".into(), "1".into()]);
        page.section("Real time", "Median.\n", &table);
        page.commands(&["a b".into()]);
        let expected = "# A bench\n\n**Not complete:** the bench ended before its last run.\n\n\
                        - Mail: none\n\n## Real time\n\nMedian.\n\n\
                        | work | s |\n| --- | ---: |\n| a | 1 |\n\n## Commands\n\n```\na b\n```\n";
        assert_eq!(page.text, expected);
    }
}
