//! Mail::IMAPClient of Perl.

use std::io;

use super::context::{ClientContext, check_equal};

/// The file of the module.
pub(super) const MODULE: &str = "/usr/share/perl5/Mail/IMAPClient.pm";

/// Takes port, user and password.
const PROGRAM: &str = r#"
use strict; use warnings; use Mail::IMAPClient;
my ($port, $user, $password) = @ARGV;
my $i = Mail::IMAPClient->new(Server => '127.0.0.1', Port => $port, User => $user,
    Password => $password, Uid => 1) or die "connect: $@";
sub ok { my ($what, $value) = @_; die "$what: " . ($i->LastError // '') unless $value; $value }
ok('select', $i->select('INBOX'));
my @uids = $i->search('ALL');
die "found @uids" unless @uids == 5;
my $text = ok('message', $i->message_string($uids[0]));
die "text: $text" unless $text =~ /body of the first\r\n\z/;
die 'size' unless length($text) == $i->size($uids[0]);
ok('flag', $i->set_flag('Flagged', $uids[2]));
ok('envelope', $i->get_envelope($uids[0]));
ok('structure', $i->get_bodystructure($uids[1]));
ok('append', $i->append_string('Archive', "Subject: by perl\r\n\r\nx\r\n", '\Seen'));
ok('copy', $i->copy('Archive', $uids[1]));
ok('move', $i->move('Archive', $uids[3]));
ok('expunge', $i->expunge);
die 'count' unless $i->message_count == 4;
my @folders = $i->folders;
die "folders: @folders" unless grep { $_ eq 'Archive' } @folders;
ok('idle', my $tag = $i->idle);
ok('done', $i->done($tag));
ok('logout', $i->logout);
"#;

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let program = context.write("client.pl", PROGRAM)?;
    let (program, port) = (program.to_string_lossy().into_owned(), context.port().to_string());
    context.run_ok("perl", &[&program, &port, &login.name, &login.password])?;
    check_equal("messages in Archive", context.messages("Archive")?.len(), 3)?;
    let third = context.find("INBOX", "=?utf-8?q?dr=C3=A4tte?=")?;
    check_equal("flags", third.flags.contains(&"\\flagged".to_owned()), true)
}
