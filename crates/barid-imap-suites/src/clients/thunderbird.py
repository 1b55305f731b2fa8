"""Thunderbird, driven through Marionette.

Arguments: port, port with TLS or 0, certificate or "", user, password, folder for the profile.
"""
import imaplib
import json
import os
import socket
import subprocess
import sys
import time

PORT, TLS_PORT, CERTIFICATE, USER, PASSWORD, HOME = sys.argv[1:7]
PROFILE = os.path.join(HOME, 'profile')
TIMEOUT = 90
# Seconds after which Thunderbird has sent IDLE.
QUIET = 4

PREFS = {
    'app.update.enabled': False,
    'datareporting.healthreport.uploadEnabled': False,
    'datareporting.policy.dataSubmissionPolicyBypassNotification': True,
    'extensions.update.enabled': False,
    'mail.account.account1.identities': 'id1',
    'mail.account.account1.server': 'server1',
    'mail.account.account2.server': 'server2',
    'mail.accountmanager.accounts': 'account1,account2',
    'mail.accountmanager.defaultaccount': 'account1',
    'mail.accountmanager.localfoldersserver': 'server2',
    'mail.biff.show_alert': False,
    'mail.identity.id1.compose_html': False,
    'mail.identity.id1.draft_folder': 'imap://%s@127.0.0.1/Drafts' % USER,
    'mail.identity.id1.drafts_folder_picker_mode': '1',
    'mail.identity.id1.fullName': 'Test',
    'mail.identity.id1.useremail': 'user@example.org',
    'mail.identity.id1.valid': True,
    'mail.provider.suppress_dialog_on_startup': True,
    'mail.rights.version': 1,
    # Nothing is asked for at intervals: only IDLE reports changes.
    'mail.server.server1.check_new_mail': False,
    'mail.server.server1.login_at_startup': False,
    'mail.server.server1.use_idle': True,
    # No downloads in the background, which make the order of commands a matter of chance.
    'mail.server.server1.autosync_offline_stores': False,
    'mail.server.server1.offline_download': False,
    'mail.server.server1.authMethod': 3,
    'mail.server.server1.hostname': '127.0.0.1',
    'mail.server.server1.name': 'test',
    'mail.server.server1.port': int(TLS_PORT) or int(PORT),
    'mail.server.server1.socketType': 3 if int(TLS_PORT) else 0,
    'mail.server.server1.type': 'imap',
    'mail.server.server1.userName': USER,
    'mail.server.server2.hostname': 'Local Folders',
    'mail.server.server2.name': 'Local Folders',
    'mail.server.server2.type': 'none',
    'mail.server.server2.userName': 'nobody',
    'mail.shell.checkDefaultClient': False,
    'mailnews.start_page.enabled': False,
    'mailnews.start_page_override.mstone': 'ignore',
    'marionette.port': 0,
    # Nothing leaves this machine: the proxy is a closed port, and not used for this machine.
    'network.proxy.http': '127.0.0.1',
    'network.proxy.http_port': 9,
    'network.proxy.ssl': '127.0.0.1',
    'network.proxy.ssl_port': 9,
    'network.proxy.type': 1,
    'toolkit.telemetry.enabled': False,
}

# Definitions for all scripts; `server` is that of the account.
COMMON = r'''
const { MailServices } = ChromeUtils.importESModule("resource:///modules/MailServices.sys.mjs");
const server = MailServices.accounts.accounts.map(account => account.incomingServer)
  .find(server => server.type == "imap");
const find = name => server.rootFolder.descendants.find(folder => folder.name == name);
const folder = name => {
  const found = find(name);
  if (!found) throw new Error(`no folder ${name}`);
  return found;
};
const copyDone = start => new Promise((resolve, reject) => start({
  QueryInterface: ChromeUtils.generateQI(["nsIMsgCopyServiceListener"]),
  onStartCopy() {}, onProgress() {}, setMessageKey() {}, getMessageId() { return null; },
  onStopCopy(code) { code ? reject(new Error(`copy: ${code}`)) : resolve(); },
}));
const messages = folder => [...folder.msgDatabase.enumerateMessages()];
const has = (folder, subject) =>
  messages(folder).some(message => message.mime2DecodedSubject == subject);
const message = (folder, subject) => {
  const found = messages(folder).find(message => message.mime2DecodedSubject == subject);
  if (!found) throw new Error(`no ${subject} in ` +
    messages(folder).map(message => message.mime2DecodedSubject));
  return found;
};
const until = async (what, condition, pause = 50) => {
  const end = Date.now() + 30000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`no ${what} in time`);
    await new Promise(resolve => setTimeout(resolve, pause));
  }
};
// Waits until a folder shows a subject. Thunderbird drops an update while another one runs.
const appears = (name, subject) => until(subject, () => {
  const folder = find(name);
  folder?.updateFolder(null);
  return folder && has(folder, subject);
}, 500);
'''


class Marionette:
    """A connection to the Marionette of a Thunderbird."""

    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.settimeout(TIMEOUT)
        self.stream = self.socket.makefile('rb')
        self.number = 0
        self.receive()
        self.command('WebDriver:NewSession', {})
        self.command('WebDriver:SetTimeouts', {'script': TIMEOUT * 1000})
        self.command('Marionette:SetContext', {'value': 'chrome'})

    def receive(self):
        length = b''
        while not length.endswith(b':'):
            byte = self.stream.read(1)
            assert byte, 'Thunderbird has closed the connection'
            length += byte
        return json.loads(self.stream.read(int(length[:-1])))

    def command(self, name, parameters):
        self.number += 1
        text = json.dumps([0, self.number, name, parameters]).encode()
        self.socket.sendall(b'%d:%s' % (len(text), text))
        _, number, error, result = self.receive()
        assert number == self.number
        if error:
            raise SystemExit('%s: %s' % (name, json.dumps(error)[:3000]))
        return result

    def run(self, name, script):
        """Runs a script, in which `await` is allowed, and returns its value."""
        start = time.monotonic()
        whole = COMMON + '''
        const done = arguments[arguments.length - 1];
        (async () => {%s})()
          .then(value => done({ value }), error => done({ error: String(error) }));
        ''' % script
        parameters = {'script': whole, 'args': [], 'sandbox': 'system', 'newSandbox': True}
        result = self.command('WebDriver:ExecuteAsyncScript', parameters)['value']
        print('%s: %.1f s: %s' % (name, time.monotonic() - start, result), flush=True)
        if 'error' in result:
            raise SystemExit('%s: %s' % (name, result['error']))
        return result.get('value')


def write_profile():
    os.makedirs(PROFILE, exist_ok=True)
    with open(os.path.join(PROFILE, 'user.js'), 'w') as file:
        for name, value in PREFS.items():
            file.write('user_pref(%s, %s);\n' % (json.dumps(name), json.dumps(value)))


def marionette_port(program):
    path = os.path.join(PROFILE, 'MarionetteActivePort')
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        assert program.poll() is None, 'Thunderbird has ended'
        if os.path.exists(path):
            text = open(path).read().strip()
            if text:
                return int(text)
        time.sleep(0.1)
    raise SystemExit('Thunderbird does not listen')


def work(tb):
    tb.run('login', r'''
      await until("account", () => server);
      server.password = %s;
      const certificate = %s;
      if (certificate) {
        // The exception that a person confirms.
        const text = await IOUtils.readUTF8(certificate);
        const base64 = text.match(/-----BEGIN CERTIFICATE-----([^-]*)-----END/)[1];
        const parsed = Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB)
          .constructX509FromBase64(base64.replace(/\s/g, ""));
        Cc["@mozilla.org/security/certoverride;1"].getService(Ci.nsICertOverrideService)
          .rememberValidityOverride("127.0.0.1", server.port, {}, parsed, true);
      }
      server.performExpand(null);
      await until("folders", () => find("Archive"));
      return server.rootFolder.descendants.map(folder => folder.name);
    ''' % (json.dumps(PASSWORD), json.dumps(CERTIFICATE)))
    assert tb.run('list', r'''
      await appears("INBOX", "fifth");
      return messages(folder("INBOX")).map(message => message.mime2DecodedSubject);
    ''') == ['first', 'second', 'drätte', 'fourth', 'fifth']
    # As a person does: a click on the folder and on the message, whose text is then on the screen.
    assert 'text of the second' in tb.run('read', r'''
      const window = Services.wm.getMostRecentWindow("mail:3pane");
      const tabs = window.document.getElementById("tabmail");
      await until("first tab", () => tabs.currentAbout3Pane?.folderTree?.getRowAtIndex(0));
      const pane = tabs.currentAbout3Pane;
      pane.displayFolder(folder("INBOX"));
      await until("rows", () => pane.gDBView?.rowCount == 5);
      pane.selectMessage(message(folder("INBOX"), "second"));
      const text = () => tabs.currentAboutMessage?.getMessagePaneBrowser()
        .contentDocument?.body?.textContent ?? "";
      await until("text", () => text().includes("second"));
      await until("mark of a read message", () => message(folder("INBOX"), "second").isRead);
      return text();
    ''')
    assert tb.run('search', r'''
      const session = Cc["@mozilla.org/messenger/searchSession;1"]
        .createInstance(Ci.nsIMsgSearchSession);
      session.addScopeTerm(Ci.nsMsgSearchScope.onlineMail, folder("INBOX"));
      const term = session.createTerm();
      term.attrib = Ci.nsMsgSearchAttrib.Body;
      term.op = Ci.nsMsgSearchOp.Contains;
      const value = term.value;
      value.attrib = term.attrib;
      value.str = "body of the third";
      term.value = value;
      session.appendTerm(term);
      const hits = [];
      await new Promise(resolve => {
        session.registerListener({
          QueryInterface: ChromeUtils.generateQI(["nsIMsgSearchNotify"]),
          onSearchHit(message) { hits.push(message.mime2DecodedSubject); },
          onSearchDone: resolve, onNewSearch() {},
        });
        session.search(null);
      });
      return hits;
    ''') == ['drätte']
    tb.run('flag', r'''
      const inbox = folder("INBOX");
      inbox.markMessagesFlagged([message(inbox, "first")], true);
      inbox.addKeywordsToMessages([message(inbox, "first")], "$label1");
    ''')
    tb.run('move', r'''
      const [inbox, archive] = [folder("INBOX"), folder("Archive")];
      await copyDone(listener => MailServices.copy.copyMessages(
        inbox, [message(inbox, "fifth")], archive, true, listener, null, false));
      await appears("Archive", "fifth");
    ''')
    # The message goes to the trash, which is made for it.
    tb.run('delete', r'''
      const inbox = folder("INBOX");
      inbox.deleteMessages([message(inbox, "fourth")], null, false, true, null, false);
      await until("deletion", () => messages(inbox).length == 3);
      await appears("Trash", "fourth");
    ''')
    tb.run('draft', r'''
      const parameters = Cc["@mozilla.org/messengercompose/composeparams;1"]
        .createInstance(Ci.nsIMsgComposeParams);
      const fields = Cc["@mozilla.org/messengercompose/composefields;1"]
        .createInstance(Ci.nsIMsgCompFields);
      fields.to = "someone@example.org";
      fields.subject = "Grüße";
      fields.body = "a draft\n";
      parameters.composeFields = fields;
      parameters.type = Ci.nsIMsgCompType.New;
      parameters.format = Ci.nsIMsgCompFormat.PlainText;
      parameters.identity = MailServices.accounts.defaultAccount.defaultIdentity;
      const opened = async () => {
        MailServices.compose.OpenComposeWindowWithParams(null, parameters);
        let window;
        // The timer is started last; a draft that is saved before the text is there gets lost.
        await until("window", () => {
          window = Services.wm.getMostRecentWindow("msgcompose");
          return window?.gAutoSaveTimeout && window.GetCurrentEditorElement()
            ?.contentDocument?.body?.textContent.includes("a draft");
        });
        await new Promise(resolve => setTimeout(resolve, 1000));
        return window;
      };
      const is_saved = () => {
        const drafts = find("Drafts");
        drafts?.updateFolder(null);
        return drafts && has(drafts, "Grüße");
      };
      // Now and then Thunderbird sends nothing, to whatever server, and may never end its attempt; a
      // person writes the message again.
      for (let attempt = 0; attempt < 3; attempt++) {
        const window = await opened();
        await window.SaveAsDraft();
        for (let second = 0; second < 12; second++) {
          // An update of the folder before the end of saving would be in the way of the copy.
          if (!window.gSaveOperationInProgress && is_saved()) break;
          await new Promise(resolve => setTimeout(resolve, 1000));
        }
        window.gContentChanged = false;
        window.close();
        await until("end of window",
                    () => Services.wm.getMostRecentWindow("msgcompose") != window);
        if (is_saved()) break;
      }
      await appears("Drafts", "Grüße");
    ''')
    # The folder is still on the screen; its connection waits with IDLE after two quiet seconds.
    time.sleep(QUIET)
    other = imaplib.IMAP4('127.0.0.1', int(PORT))
    other.login(USER, PASSWORD)
    other.append('INBOX', None, None, b'From: o@example.org\r\nSubject: pushed\r\n\r\npushed\r\n')
    tb.run('push of a message', r'''
      await until("new message", () => has(folder("INBOX"), "pushed"));
    ''')
    # Thunderbird ignores changes of flags that come while it fetches the new message.
    time.sleep(QUIET)
    other.select('INBOX')
    number = other.search(None, 'SUBJECT', 'first')[1][0].decode()
    other.store(number, 'FLAGS', r'(\Answered $label1)')
    other.logout()
    tb.run('push of flags', r'''
      const first = message(folder("INBOX"), "first");
      await until("flags", () => !first.isFlagged && first.flags & Ci.nsMsgMessageFlags.Replied);
    ''')


def main():
    write_profile()
    log = open(os.path.join(HOME, 'thunderbird.log'), 'wb')
    program = subprocess.Popen(
        ['thunderbird', '--headless', '--no-remote', '--marionette',
         '--remote-allow-system-access', '--profile', PROFILE],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        start = time.monotonic()
        tb = Marionette(marionette_port(program))
        print('start: %.1f s' % (time.monotonic() - start), flush=True)
        work(tb)
    finally:
        program.terminate()
        program.wait()


main()
