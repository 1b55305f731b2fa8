//! A judge whose list changes while it is open.

use std::sync::Arc;

use barid_bayes::{Parameters, WordEncoding};
use barid_bogofilter::dropin::{Judge, ListSpec, Lists, Opening, Settings};
use barid_vfs::{MemVfs, Vfs};
use barid_wordlist::{Batch, Counts, Created, Native, TokenEntry, WordList as _, keys, open_list};

const LIST: &str = "/wordlist.db";
const DATE: u32 = 20_261_122;
const HAM: &[u8] = b"Subject: minutes\n\nminutes of the meeting on the release\n";

#[test]
fn a_judge_follows_what_its_list_says_of_itself() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let created = Created { date: DATE, encoding: Some(2) };
    let mut list = Native::open_or_create(Arc::clone(&vfs), LIST.as_ref(), &created).unwrap();
    let mut batch = Batch::new(DATE);
    for token in [&b"minutes"[..], keys::MSG_COUNT] {
        batch.change(token, Counts::new(2, 0), Counts::default()).unwrap();
    }
    list.update(&batch).unwrap();
    let say = |robx, encoding| {
        let mut batch = Batch::new(DATE);
        for (key, spam) in [(keys::ROBX, robx), (keys::ENCODING, encoding)] {
            batch.set(key, TokenEntry { spam, ham: 0, date: DATE }).unwrap();
        }
        batch.change(b"word", Counts::new(1, 0), Counts::default()).unwrap();
        open_list(&vfs, LIST.as_ref()).unwrap().update(&batch).unwrap();
    };
    say(600_000, 2);
    let judge = |robx, encoding| {
        let specs = [ListSpec { path: LIST.into(), is_ignored: false }];
        let lists = Lists::open(&vfs, &specs, Opening::Read, encoding).unwrap();
        let parameters = Parameters { robx, ..Parameters::default() };
        let settings = Settings { parameters, encoding, ..Settings::default() };
        let mut judge = Judge::new(Arc::clone(&vfs), settings, lists).unwrap();
        judge.judge(HAM).unwrap();
        judge
    };
    let (mut follows, mut insists) = (judge(0.0, None), judge(0.3, Some(WordEncoding::Utf8)));
    let said = |judge: &Judge| (judge.settings().parameters.robx, judge.settings().encoding);
    assert_eq!(said(&follows), (0.6, Some(WordEncoding::Utf8)));
    say(400_000, 1);
    follows.refresh().unwrap();
    assert_eq!(said(&follows), (0.4, Some(WordEncoding::Raw)));
    // What was asked for stays; another encoding than the list's is refused.
    assert!(insists.refresh().is_err());
    say(500_000, 2);
    insists.refresh().unwrap();
    assert_eq!(said(&insists), (0.3, Some(WordEncoding::Utf8)));
}
