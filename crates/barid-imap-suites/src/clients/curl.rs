//! curl: appends, lists, searches and fetches, without TLS, with STARTTLS and with implicit TLS.

use std::io;

use super::context::{ClientContext, check, check_equal};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let user = format!("{}:{}", login.name, login.password);
    let plain = format!("imap://127.0.0.1:{}", context.port());
    let mut ways: Vec<(String, Vec<String>)> = vec![(plain.clone(), Vec::new())];
    if let Some(tls) = context.tls() {
        let trust = match &tls.certificate {
            Some(file) => vec!["--cacert".to_owned(), file.to_string_lossy().into_owned()],
            None => vec!["-k".to_owned()],
        };
        ways.push((format!("imaps://127.0.0.1:{}", tls.address.port()), trust.clone()));
        ways.push((plain, [vec!["--ssl-reqd".to_owned()], trust].concat()));
    }
    for (number, (url, options)) in ways.iter().enumerate() {
        let curl = |path: &str, more: &[&str]| {
            let url = format!("{url}{path}");
            let mut args = vec!["-sS", "-u", &user, "--url", &url];
            args.extend(options.iter().map(String::as_str));
            args.extend(more);
            context.run_ok("curl", &args)
        };
        let name = format!("m{number}.eml");
        let id = format!("curl{number}@example.org");
        let text = format!(
            "From: a@example.org\r\nSubject: by curl {number}\r\nMessage-ID: <{id}>\r\n\r\nhello\r\n"
        );
        let path = context.write(&name, &text)?;
        curl("/Archive", &["-T", &path.to_string_lossy()])?;
        let listed = curl("/", &[])?;
        check(listed.contains("INBOX") && listed.contains("Archive"), || listed.clone())?;
        let search = format!("UID SEARCH HEADER Message-ID {id}");
        let found = curl("/Archive", &["-X", &search])?;
        let uid = found.split_whitespace().last().unwrap_or_default().to_owned();
        let whole = curl(&format!("/Archive/;UID={uid}"), &[])?;
        check_equal("the message", whole.as_str(), text.as_str())?;
        let part = curl(&format!("/Archive/;UID={uid}/;SECTION=TEXT"), &[])?;
        check_equal("its text", part.as_str(), "hello\r\n")?;
        let status = curl("/", &["-X", "STATUS INBOX (MESSAGES)"])?;
        check(status.contains("(MESSAGES 5)"), || status.clone())?;
        // curl compares the UIDVALIDITY of the URL.
        let wrong = curl("/INBOX;UIDVALIDITY=1/;UID=1", &[]);
        check(wrong.is_err(), || "a wrong UIDVALIDITY was accepted".to_owned())?;
    }
    check_equal("messages in Archive", context.messages("Archive")?.len(), ways.len())
}
