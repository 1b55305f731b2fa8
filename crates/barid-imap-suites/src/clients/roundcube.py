"""Roundcube, served by PHP's own server and driven in Chromium.

Arguments: port, user, password, folder for all files.
"""
import imaplib
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

PORT, USER, PASSWORD, HOME = sys.argv[1:5]
TIMEOUT = 30

CONFIG = '''<?php
$config = [
  'db_dsnw' => 'sqlite:///%(home)s/roundcube.db?mode=0600',
  'des_key' => '%(key)s',
  'imap_host' => '127.0.0.1:%(port)s',
  'imap_debug' => true,
  'log_dir' => '%(home)s/',
  'temp_dir' => '%(home)s/',
  'create_default_folders' => true,
  'mail_read_time' => 0,
  'message_sort_col' => 'date',
  'message_sort_order' => 'DESC',
  'plugins' => [],
  'skin' => 'elastic',
  'language' => 'en_US',
];
'''


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def start_php():
    """Starts Roundcube with a configuration and a database of its own."""
    config = os.path.join(HOME, 'config')
    os.makedirs(config, exist_ok=True)
    for name in ['defaults.inc.php', 'mimetypes.php']:
        os.symlink('/etc/roundcube/' + name, os.path.join(config, name))
    with open(os.path.join(config, 'config.inc.php'), 'w') as file:
        file.write(CONFIG % {'home': HOME, 'key': secrets.token_hex(12), 'port': PORT})
    database = sqlite3.connect(os.path.join(HOME, 'roundcube.db'))
    with open('/usr/share/roundcube/SQL/sqlite.initial.sql') as file:
        database.executescript(file.read())
    database.close()
    port = free_port()
    log = open(os.path.join(HOME, 'php.log'), 'wb')
    program = subprocess.Popen(
        ['php', '-S', '127.0.0.1:%d' % port, '-t', '/var/lib/roundcube'],
        env=dict(os.environ, ROUNDCUBE_CONFIG_DIR=config, PHP_CLI_SERVER_WORKERS='4'),
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return program, 'http://127.0.0.1:%d/index.php' % port


def wait_for_php(address):
    end = time.monotonic() + TIMEOUT
    while True:
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def start_chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = '/usr/bin/chromium'
    # Nothing leaves this machine: the proxy is a closed port, and not used for this machine.
    for argument in ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                     '--no-first-run', '--window-size=1280,760', '--lang=en-US',
                     '--disable-background-networking', '--proxy-server=127.0.0.1:9',
                     '--user-data-dir=%s/chromium' % HOME]:
        options.add_argument(argument)
    service = Service('/usr/bin/chromedriver', log_path=os.path.join(HOME, 'chromedriver.log'))
    return webdriver.Chrome(service=service, options=options)


class Page:
    """The page of Roundcube, used as a person does: clicks, keys, and what is on the screen."""

    def __init__(self, driver):
        self.driver = driver
        self.started = time.monotonic()

    def step(self, name):
        now = time.monotonic()
        print('%s: %.1f s' % (name, now - self.started), flush=True)
        self.started = now

    def until(self, what, condition):
        WebDriverWait(self.driver, TIMEOUT, 0.05).until(
            lambda _: self.is_idle() and condition(), 'no ' + what)

    def is_idle(self):
        return self.driver.execute_script('return !window.rcmail || !rcmail.busy')

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.until(selector, lambda: self.driver.find_elements(By.CSS_SELECTOR, selector)
                   and self.one(selector).is_displayed())
        self.one(selector).click()

    def subjects(self):
        elements = self.driver.find_elements(By.CSS_SELECTOR, '#messagelist tbody span.subject a')
        # A row that is gone may be hidden.
        return [element.text for element in elements if element.is_displayed()]

    def row(self, subject):
        """Returns the selector of the row of a message."""
        for row in self.driver.find_elements(By.CSS_SELECTOR, '#messagelist tbody tr'):
            if row.find_element(By.CSS_SELECTOR, 'span.subject').text == subject:
                return '#' + row.get_attribute('id')
        raise SystemExit('no %r in %r' % (subject, self.subjects()))

    def classes(self, subject):
        """Returns the classes of the row of a message."""
        return self.one(self.row(subject)).get_attribute('class').split()

    def show(self, subject):
        """Selects a message and returns the text of its preview."""
        self.click(self.row(subject) + ' span.subject a')
        text = ''

        def is_shown():
            nonlocal text
            self.driver.switch_to.frame('messagecontframe')
            try:
                text = self.driver.execute_script('return document.body.innerText')
            finally:
                self.driver.switch_to.default_content()
            return subject in text and 'From' in text
        self.until('text of ' + subject, is_shown)
        return text

    def open(self, mailbox):
        self.click('#mailboxlist li.mailbox a[rel="%s"]' % mailbox)
        name = 'return rcmail.env.mailbox'
        self.until(mailbox, lambda: self.driver.execute_script(name) == mailbox)


def work(page, address):
    driver = page.driver
    driver.get(address)
    page.one('#rcmloginuser').send_keys(USER)
    page.one('#rcmloginpwd').send_keys(PASSWORD + Keys.ENTER)
    page.until('list', lambda: len(page.subjects()) == 5)
    page.step('login and list')
    assert page.subjects() == ['fifth', 'fourth', 'drätte', 'second', 'first'], page.subjects()
    links = driver.find_elements(By.CSS_SELECTOR, '#mailboxlist a')
    names = [link.get_attribute('rel') for link in links]
    assert {'INBOX', 'Archive', 'Drafts', 'Sent', 'Junk', 'Trash'} <= set(names), names

    text = page.show('second')
    assert 'text of the second' in text and 'a.pdf' in text, text
    page.until('mark of a read message', lambda: 'unread' not in page.classes('second'))
    page.step('read')

    page.one('#mailsearchform').send_keys('drätte' + Keys.ENTER)
    page.until('search', lambda: page.subjects() == ['drätte'])
    page.click('.searchbar a.button.reset')
    page.until('list', lambda: len(page.subjects()) == 5)
    page.step('search')

    # The icon is there while the mouse is over the row.
    row = page.row('first')
    hover = ActionChains(driver).move_to_element(page.one(row))
    hover.move_to_element(page.one(row + ' span.flag')).click().perform()
    page.until('flag', lambda: 'flagged' in page.classes('first'))
    page.step('flag')

    page.show('fifth')
    page.click('#messagemenulink')
    page.click('#message-menu a.move.active')
    page.click('#folder-selector li:last-child a.active')  # Archive
    page.until('move', lambda: len(page.subjects()) == 4)
    page.open('Archive')
    page.until('Archive', lambda: page.subjects() == ['fifth'])
    page.open('INBOX')
    page.step('move')

    page.show('fourth')
    page.click('#layout-content a.delete:not(.disabled)')
    page.until('deletion', lambda: len(page.subjects()) == 3)
    page.open('Trash')
    page.until('Trash', lambda: page.subjects() == ['fourth'])
    page.open('INBOX')
    page.until('INBOX', lambda: len(page.subjects()) == 3)
    page.step('delete')

    driver.get(address + '?_task=mail&_action=compose')
    page.one('#compose-subject').send_keys('Grüße')
    page.one('#composebody').send_keys('a draft')
    page.click('a.save.draft:not(.disabled)')
    page.until('draft', lambda: 'saved to Drafts' in page.one('#messagestack').text)
    driver.get(address + '?_task=mail&_mbox=Drafts')
    page.until('Drafts', lambda: page.subjects() == ['Grüße'])
    page.step('draft')

    driver.get(address + '?_task=mail&_mbox=INBOX')
    page.until('INBOX', lambda: len(page.subjects()) == 3)
    other = imaplib.IMAP4('127.0.0.1', int(PORT))
    other.login(USER, PASSWORD)
    header = 'From: o@example.org\r\nSubject: Re: first\r\nReferences: <1@example.org>\r\n'
    other.append('INBOX', None, None, (header + '\r\nnew\r\n').encode())
    other.logout()
    page.click('a.refresh:not(.disabled)')
    page.until('new message', lambda: len(page.subjects()) == 4)
    page.step('new message')
    driver.execute_script("rcmail.set_list_options(null, 'date', 'DESC', 1, null)")
    page.until('threads', lambda: len(page.subjects()) == 3)
    page.step('threads')


def main():
    php, address = start_php()
    driver = None
    try:
        wait_for_php(address)
        driver = start_chromium()
        page = Page(driver)
        try:
            work(page, address)
        except BaseException:
            driver.save_screenshot(os.path.join(HOME, 'failure.png'))
            raise
    finally:
        if driver:
            driver.quit()
        # The server and its workers are a process group.
        os.killpg(php.pid, 15)
        php.wait()


main()
