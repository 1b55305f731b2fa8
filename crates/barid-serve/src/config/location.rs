//! The location of a user's mail, in the form of Dovecot's `mail_location`.

use barid::{Format, FormatName};
use barid_auth::Template;
use barid_folders::Layout;

/// The location of a user's mail: `[FORMAT:]PATH[:LAYOUT=maildir++|fs][:INBOX=PATH]`.
///
/// `INDEX`, `CONTROL` and the other keys of Dovecot, whose files barid does not have, are ignored.
#[derive(Clone, Debug)]
pub struct MailLocation {
    /// The text.
    pub text: String,
    /// The format before the colon.
    pub format: Option<FormatName>,
    /// The folder of the mailboxes.
    pub root: Template,
    /// The layout after `LAYOUT=`, or that of the format; `None` detects it.
    pub layout: Option<Layout>,
    /// INBOX, after `INBOX=`.
    pub inbox: Option<Template>,
}

/// Keys of Dovecot that may follow the path.
const IGNORED: &[&str] = &["INDEX", "INDEXPVT", "CONTROL", "ALT", "DIRNAME", "SUBSCRIPTIONS"];
/// Formats of Dovecot that barid cannot read.
const FOREIGN: &[&str] = &["mdbox", "sdbox", "dbox", "imapc", "cydir", "obox"];

impl MailLocation {
    /// Parses a location.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (format, rest) = match text.split_once(':') {
            Some((name, rest)) if FormatName::named(name).is_some() => {
                (FormatName::named(name), rest)
            }
            Some((name, _)) if FOREIGN.contains(&name) => {
                return Err(format!("mailboxes of the format {name} cannot be read"));
            }
            _ => (None, text),
        };
        let mut layout = format.map(|format| layout_of(format.format()));
        let (mut root, mut inbox) = (rest, None);
        while let Some((before, option)) = root.rsplit_once(':') {
            let Some((key, value)) = option.split_once('=') else { break };
            match key {
                "LAYOUT" => layout = Some(named_layout(value, format)?),
                "INBOX" => inbox = Some(template(value)?),
                key if IGNORED.contains(&key) => {}
                _ => break,
            }
            root = before;
        }
        if !(root.starts_with('/') || root.starts_with("~/") || root.starts_with('%')) {
            return Err(format!("{root:?} is not an absolute path, and does not begin with ~/"));
        }
        Ok(Self { text: text.to_owned(), format, root: template(root)?, layout, inbox })
    }
}

pub(super) fn template(text: &str) -> Result<Template, String> {
    Template::parse(text).map_err(|error| error.to_string())
}

/// Returns the layout of mailboxes of a format unless another one is named.
pub(super) fn layout_of(format: Format) -> Layout {
    match format.subfolders {
        barid::Subfolders::Dotted => Layout::MaildirPlusPlus,
        _ => Layout::Files(format),
    }
}

/// Returns the layout with a name, Dovecot's or that of the configuration.
pub(super) fn named_layout(name: &str, format: Option<FormatName>) -> Result<Layout, String> {
    let format = format.map(FormatName::format);
    let is_dotted = |format: &Format| format.subfolders == barid::Subfolders::Dotted;
    match name.to_ascii_lowercase().as_str() {
        "maildir++" if format.as_ref().is_none_or(is_dotted) => Ok(Layout::MaildirPlusPlus),
        "maildir++" => Err("the layout maildir++ has Maildirs only".to_owned()),
        "fs" | "nested" | "files" => Ok(match format {
            Some(format) if !is_dotted(&format) => Layout::Files(format),
            None if name.eq_ignore_ascii_case("files") => {
                Layout::Files(barid::default_format(false))
            }
            _ => Layout::NestedMaildirs,
        }),
        _ => Err(format!("{name:?} is not a layout: maildir++, nested or files")),
    }
}

#[cfg(test)]
mod tests {
    use barid_auth::NameRules;

    use super::*;

    fn check(text: &str, expected: Result<(&str, Option<&str>, &str), &str>) {
        let name = NameRules::default().name(b"ann@example.org").unwrap();
        let expand = |template: &Template| template.expand(&name, Some("/home/ann")).unwrap();
        let found = MailLocation::parse(text).map(|location| {
            let layout = match location.layout {
                None => "detected".to_owned(),
                Some(Layout::MaildirPlusPlus) => "maildir++".to_owned(),
                Some(Layout::NestedMaildirs) => "nested".to_owned(),
                Some(Layout::Files(format)) => format.name.to_owned(),
            };
            (expand(&location.root), location.inbox.as_ref().map(expand), layout)
        });
        let found = found
            .as_ref()
            .map(|(root, inbox, layout)| (root.as_str(), inbox.as_deref(), layout.as_str()));
        assert_eq!(found.map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn locations_of_dovecot_are_understood() {
        check("maildir:~/Maildir", Ok(("/home/ann/Maildir", None, "maildir++")));
        check("maildir:~/Mail:LAYOUT=fs", Ok(("/home/ann/Mail", None, "nested")));
        check("/srv/%d/%n", Ok(("/srv/example.org/ann", None, "detected")));
        let spool = Some("/var/mail/ann@example.org");
        let text = "mbox:~/mail:INBOX=/var/mail/%u:INDEX=/var/index/%u";
        check(text, Ok(("/home/ann/mail", spool, "mboxo")));
        check("mix:/srv/%u:LAYOUT=fs", Ok(("/srv/ann@example.org", None, "mix")));
        check("/odd:folder", Ok(("/odd:folder", None, "detected")));
        check("mdbox:~/mdbox", Err("mailboxes of the format mdbox cannot be read"));
        let relative = "\"Maildir\" is not an absolute path, and does not begin with ~/";
        check("maildir:Maildir", Err(relative));
        check("mbox:/m:LAYOUT=maildir++", Err("the layout maildir++ has Maildirs only"));
    }
}
