//! imapfilter: searches, flags, copies, moves and deletes by rules.

use std::io;

use super::context::{ClientContext, check, check_equal};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let rules = format!(
        "options.starttls = false\noptions.create = true\n\
         a = IMAP {{ server = '127.0.0.1', port = {}, username = '{}', password = '{}' }}\n\
         local all, new, recent, unseen = a.INBOX:check_status()\nprint('all ' .. all)\n\
         r = a.INBOX:contain_subject('f')\nprint('found ' .. #r)\n\
         r = a.INBOX:contain_body('text of the second') + a.INBOX:contain_from('s1@')\n\
         r:add_flags({{ 'Filtered' }})\nr:mark_flagged()\n\
         a:create_mailbox('Made')\nr:copy_messages(a['Made'])\n\
         m = a.INBOX:match_subject('^fifth$')\nm:move_messages(a['Archive'])\n\
         d = a.INBOX:contain_field('Message-ID', '4@example.org')\nd:delete_messages()\n\
         for _, message in ipairs(a.INBOX:is_flagged()) do\n\
           local mailbox, uid = table.unpack(message)\n\
           print('length ' .. #mailbox[uid]:fetch_header())\nend\n",
        context.port(),
        login.name,
        login.password
    );
    let rules = context.write("rules.lua", &rules)?;
    let output = context.run_ok("imapfilter", &["-v", "-c", &rules.to_string_lossy()])?;
    for line in ["all 5", "found 3"] {
        check(output.contains(line), || format!("no {line:?}"))?;
    }
    check_equal("headers", output.matches("length ").count(), 2)?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), 3)?;
    check_equal("messages in Made", context.messages("Made")?.len(), 2)?;
    context.find("Archive", "fifth")?;
    let flags = context.find("INBOX", "second")?.flags;
    let expected = ["\\flagged", "filtered"];
    let has_all = expected.iter().all(|flag| flags.contains(&(*flag).to_owned()));
    check(has_all, || format!("{flags:?}"))
}
