//! go-imap of Go, downloaded as a module.

use std::io;

use super::context::{ClientContext, check_equal};

/// The version: the API of the next ones may differ.
const MODULE: &str = "github.com/emersion/go-imap/v2@v2.0.0-beta.8";

/// Takes port, user and password.
const PROGRAM: &str = r#"package main

import (
	"fmt"
	"os"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

func check(what string, err error) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

func main() {
	c, err := imapclient.DialInsecure("127.0.0.1:"+os.Args[1], nil)
	check("dial", err)
	check("login", c.Login(os.Args[2], os.Args[3]).Wait())
	names, err := c.List("", "*", nil).Collect()
	check("list", err)
	if len(names) < 2 {
		check("list", fmt.Errorf("%v", names))
	}
	selected, err := c.Select("INBOX", nil).Wait()
	check("select", err)
	if selected.NumMessages != 5 {
		check("select", fmt.Errorf("%d messages", selected.NumMessages))
	}
	all := imap.SeqSet{}
	all.AddRange(1, 5)
	section := &imap.FetchItemBodySection{Peek: true}
	options := &imap.FetchOptions{UID: true, Flags: true, Envelope: true, RFC822Size: true,
		InternalDate: true, BodyStructure: &imap.FetchItemBodyStructure{Extended: true},
		BodySection: []*imap.FetchItemBodySection{section}}
	messages, err := c.Fetch(all, options).Collect()
	check("fetch", err)
	if len(messages) != 5 || messages[0].Envelope.Subject != "first" {
		check("fetch", fmt.Errorf("%v", messages))
	}
	if int64(len(messages[1].FindBodySection(section))) != messages[1].RFC822Size {
		check("size", fmt.Errorf("differs"))
	}
	found, err := c.UIDSearch(&imap.SearchCriteria{Body: []string{"body of the fourth"}}, nil).Wait()
	check("search", err)
	if uids := found.AllUIDs(); len(uids) != 1 || uids[0] != messages[3].UID {
		check("search", fmt.Errorf("%v", uids))
	}
	store := imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagFlagged}}
	check("store", c.Store(imap.UIDSetNum(messages[1].UID), &store, nil).Close())
	_, err = c.Copy(imap.UIDSetNum(messages[1].UID), "Archive").Wait()
	check("copy", err)
	_, err = c.Move(imap.UIDSetNum(messages[4].UID), "Archive").Wait()
	check("move", err)
	text := []byte("Subject: by go\r\n\r\nx\r\n")
	appended := c.Append("Archive", int64(len(text)), nil)
	_, err = appended.Write(text)
	check("append", err)
	check("append", appended.Close())
	_, err = appended.Wait()
	check("append", err)
	_, err = c.Status("Archive", &imap.StatusOptions{NumMessages: true}).Wait()
	check("status", err)
	idle, err := c.Idle()
	check("idle", err)
	check("idle", idle.Close())
	check("idle", idle.Wait())
	check("logout", c.Logout().Wait())
}
"#;

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    context.write("main.go", PROGRAM)?;
    context.run_ok("go", &["mod", "init", "client"])?;
    context.run_ok("go", &["get", MODULE])?;
    context.run_ok("go", &["mod", "tidy"])?;
    let port = context.port().to_string();
    context.run_ok("go", &["run", ".", &port, &login.name, &login.password])?;
    check_equal("messages in Archive", context.messages("Archive")?.len(), 3)?;
    let flags = context.find("INBOX", "second")?.flags;
    check_equal("flags", flags, vec!["\\flagged".to_owned()])
}
