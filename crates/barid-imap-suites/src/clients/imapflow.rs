//! imapflow of Node, downloaded with npm.

use std::io;

use super::context::{ClientContext, check_equal};

/// Takes port, user and password.
const PROGRAM: &str = r#"
const { ImapFlow } = require('imapflow');
const [port, user, pass] = process.argv.slice(2);
const assert = require('assert');
(async () => {
  const c = new ImapFlow({ host: '127.0.0.1', port: Number(port), secure: false, doSTARTTLS: false,
    auth: { user, pass }, logger: false, qresync: true });
  await c.connect();
  const names = (await c.list()).map(folder => folder.path);
  assert(names.includes('INBOX') && names.includes('Archive'), names.join());
  const status = await c.status('INBOX', { messages: true, uidNext: true, uidValidity: true });
  assert.strictEqual(status.messages, 5);
  const lock = await c.getMailboxLock('INBOX');
  try {
    const all = [];
    for await (const m of c.fetch('1:*', { uid: true, envelope: true, flags: true, size: true,
      bodyStructure: true, source: true, internalDate: true })) all.push(m);
    assert.strictEqual(all.length, 5);
    assert.strictEqual(all[0].envelope.subject, 'first');
    assert.strictEqual(all[0].source.length, all[0].size);
    assert.strictEqual(all[2].envelope.subject, 'dr\u00e4tte');
    assert.deepStrictEqual(await c.search({ subject: 'fourth' }, { uid: true }), [all[3].uid]);
    await c.messageFlagsAdd({ uid: String(all[1].uid) }, ['\\Flagged', 'Custom'], { uid: true });
    await c.messageCopy(String(all[1].uid), 'Archive', { uid: true });
    await c.messageMove(String(all[4].uid), 'Archive', { uid: true });
    await c.messageDelete(String(all[3].uid), { uid: true });
    const part = await c.download('2', '2');
    let text = '';
    for await (const chunk of part.content) text += chunk;
    assert.strictEqual(text, 'hello world');
  } finally { lock.release(); }
  await c.append('Archive', 'Subject: by imapflow\r\n\r\nx\r\n', ['\\Seen']);
  await c.mailboxCreate('Gr\u00fc\u00dfe');
  await c.mailboxDelete('Gr\u00fc\u00dfe');
  await c.logout();
})().catch(error => { console.error(error); process.exit(1); });
"#;

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    context.write("client.js", PROGRAM)?;
    context.write("package.json", "{}")?;
    context.run_ok("npm", &["install", "--no-audit", "--no-fund", "imapflow"])?;
    let port = context.port().to_string();
    context.run_ok("node", &["client.js", &port, &login.name, &login.password])?;
    check_equal("messages in Archive", context.messages("Archive")?.len(), 3)?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), 3)
}
