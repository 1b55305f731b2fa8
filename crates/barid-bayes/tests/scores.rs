//! Word lists and scores of real mail, equal to bogofilter's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use barid_bayes::{
    Counts, Distinct, Evidence, Explanation, MessagePart, Options, Parameters, Scorer, Status,
    Tokenizer,
};
use barid_testkit::peers::Bogofilter;
use barid_testkit::{Scratch, corpora};

const CORPUS: &str = "spamassassin";

/// A word list that bogofilter has trained, and the messages of the corpus left for scoring.
struct Trained {
    peer: Bogofilter,
    scratch: Scratch,
    counts: BTreeMap<Vec<u8>, Counts>,
    totals: Counts,
    others: Vec<PathBuf>,
}

impl Trained {
    /// Trains bogofilter with every `every`th message of the corpus, spam and ham, and reads the
    /// counts from its word list.
    fn new(every: usize) -> Option<Self> {
        let every = corpora::either(CORPUS, every, every.min(3));
        let peer = Bogofilter::new()?;
        let scratch = Scratch::new("bayes").unwrap();
        let (mut spam, mut ham, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let folder = corpora::find(CORPUS)?;
        for (index, file) in corpora::files(CORPUS)?.into_iter().enumerate() {
            let is_spam = file.starts_with(folder.join("spam"));
            match index % every {
                0 if is_spam => spam.push(file),
                0 => ham.push(file),
                _ => others.push(file),
            }
        }
        for (flag, files) in [("-s", &spam), ("-n", &ham)] {
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            let output = peer.filter(scratch.path(), &["-b", flag], names.join("\n").as_bytes());
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let mut trained =
            Self { peer, scratch, counts: BTreeMap::new(), totals: Counts::default(), others };
        trained.load();
        assert_eq!(trained.totals, Counts { spam: spam.len() as u32, ham: ham.len() as u32 });
        trained.check_counts(&spam, &ham);
        Some(trained)
    }

    fn load(&mut self) {
        let list = self.scratch.path().join("wordlist.db").into_os_string();
        let dump = self.peer.util(&["-d".into(), list], b"").unwrap().stdout;
        for line in dump.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut fields = line.rsplitn(4, |byte| *byte == b' ').skip(1);
            let mut number =
                || -> u32 { String::from_utf8_lossy(fields.next().unwrap()).parse().unwrap() };
            let (ham, spam) = (number(), number());
            let token = fields.next().unwrap();
            match token {
                b".MSG_COUNT" => self.totals = Counts { spam, ham },
                _ if token.starts_with(b".") => {}
                _ => drop(self.counts.insert(token.to_vec(), Counts { spam, ham })),
            }
        }
    }

    /// Checks that our tokens of the trained messages give the same counts.
    fn check_counts(&self, spam: &[PathBuf], ham: &[PathBuf]) {
        let mut tokenizer = Tokenizer::new(Options::default());
        let mut distinct = Distinct::new();
        let mut counts: BTreeMap<Vec<u8>, Counts> = BTreeMap::new();
        for (files, is_spam) in [(spam, true), (ham, false)] {
            for file in files {
                distinct.read(&mut tokenizer, &corpora::read(file).unwrap());
                for token in distinct.iter() {
                    let entry = counts.entry(token.to_vec()).or_default();
                    *if is_spam { &mut entry.spam } else { &mut entry.ham } += 1;
                }
            }
        }
        let differ: Vec<_> = counts
            .iter()
            .filter(|(token, counts)| self.counts.get(*token) != Some(counts))
            .map(|(token, counts)| (String::from_utf8_lossy(token), counts))
            .collect();
        assert!(differ.is_empty(), "{} differ: {:?}", differ.len(), &differ[..differ.len().min(9)]);
        assert_eq!(counts.len(), self.counts.len());
        eprintln!("{} tokens counted alike", counts.len());
    }

    fn evidence(&self, token: &[u8]) -> Evidence {
        let counts = self.counts.get(token).copied().unwrap_or_default();
        Evidence { counts, totals: self.totals, place: MessagePart::of(token) }
    }

    /// Checks that bogofilter and barid give messages the same scores.
    fn check_scores(&self, files: &[PathBuf], args: &[&str], parameters: Parameters) {
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let args = [&["-b", "-TT"], args].concat();
        let output = self.peer.filter(self.scratch.path(), &args, names.join("\n").as_bytes());
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let mut tokenizer = Tokenizer::new(Options::default());
        let (mut distinct, mut scorer) = (Distinct::new(), Scorer::new());
        let mut lines = output.lines();
        let mut seen = [0; 3];
        for (file, name) in files.iter().zip(&names) {
            distinct.read(&mut tokenizer, &corpora::read(file).unwrap());
            distinct.sort();
            let tokens = distinct.iter().map(|token| self.evidence(token));
            let score = scorer.score_evidence(&parameters, tokens);
            let theirs = lines.next().unwrap_or_else(|| panic!("no answer for {name}"));
            let number: f64 = theirs.rsplit(' ').next().unwrap().parse().unwrap();
            let error = (score.spamicity - number).abs();
            assert!(error <= 1e-12, "{name} {args:?}: {} and {theirs}", score.spamicity);
            seen[score.status as usize] += 1;
        }
        assert_eq!(lines.next(), None);
        eprintln!("{args:?}: {} scores alike, of them {seen:?} spam, ham, unsure", files.len());
        assert!(seen.into_iter().sum::<usize>() > 100, "{seen:?}");
    }
}

#[test]
fn scores_of_spam_and_ham() {
    let Some(trained) = Trained::new(3) else { return };
    let default = Parameters::default();
    let mut files = trained.others.clone();
    files.extend(corpora::files("csdmc2010").unwrap());
    trained.check_scores(&files, &[], default);
    let few: Vec<_> = files.into_iter().step_by(corpora::either(CORPUS, 9, 1)).collect();
    let sp_esf = Parameters { sp_esf: 0.7, ns_esf: 0.37, ..default };
    trained.check_scores(&few, &["--sp-esf=0.7", "--ns-esf=0.37"], sp_esf);
    let wide = Parameters { min_dev: 0.02, robs: 0.1, robx: 0.4, ..default };
    trained.check_scores(&few, &["-m", "0.02,0.1,0.4"], wide);
    let above = Parameters { sp_esf: 1.3, ns_esf: 1.0, ..default };
    trained.check_scores(&few, &["--sp-esf=1.3"], above);
    let fixed = Parameters { token_count: 30, ..default };
    trained.check_scores(&few, &["--token-count=30"], fixed);
    let bounds = Parameters { token_count_min: 20, token_count_max: 60, ..default };
    trained.check_scores(&few, &["--token-count-min=20", "--token-count-max=60"], bounds);
}

/// Checks that `print` writes the same explanations as bogofilter with `args`, line by line, in
/// more than 1,000 lines.
fn check_printed(trained: &Trained, args: &[&str], print: impl Fn(&Explanation<'_>, &mut Vec<u8>)) {
    let mut tokenizer = Tokenizer::new(Options::default());
    let (mut distinct, mut scorer) = (Distinct::new(), Scorer::new());
    let parameters = Parameters::default();
    let mut lines = 0;
    for file in trained.others.iter().step_by(corpora::either(CORPUS, 40, 4)) {
        let message = corpora::read(file).unwrap();
        let output = trained.peer.filter(trained.scratch.path(), args, &message).unwrap();
        distinct.read(&mut tokenizer, &message);
        distinct.sort();
        let tokens = distinct.iter().map(|token| (token, trained.evidence(token)));
        let explanation = scorer.explain(&parameters, tokens);
        let status = match explanation.score.status {
            Status::Spam => "Spam",
            Status::Ham => "Ham",
            Status::Unsure => "Unsure",
        };
        let head = format!(
            "X-Bogosity: {status}, tests=bogofilter, spamicity={:.6}, version=1.2.5\n",
            explanation.score.spamicity
        );
        let mut ours = head.into_bytes();
        print(&explanation, &mut ours);
        let split = |text: &[u8]| -> Vec<String> {
            let lines = text.split(|byte| *byte == b'\n');
            lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
        };
        let (ours, theirs) = (split(&ours), split(&output.stdout));
        let differ = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{} {args:?}", file.display());
        assert_eq!(ours.len(), theirs.len(), "{} {args:?}", file.display());
        lines += ours.len();
    }
    eprintln!("{args:?}: {lines} lines alike");
    assert!(lines > 1_000, "{lines}");
}

#[test]
fn what_is_printed_about_scores() {
    let Some(trained) = Trained::new(10) else { return };
    let parameters = Parameters::default();
    check_printed(&trained, &["-vvv"], |explanation, to| {
        explanation.write_table(&parameters, "  ", 30, to);
    });
    check_printed(&trained, &["-vv"], |explanation, to| {
        explanation.write_histogram(&parameters, "  ", to);
    });
    check_printed(&trained, &["-v", "-R"], |explanation, to| {
        explanation.write_r_table(&parameters, "  ", 30, to);
    });
    check_facts(&trained);
}

/// Checks message ids, queue ids and addresses.
fn check_facts(trained: &Trained) {
    let mut tokenizer = Tokenizer::new(Options::default());
    let mut known = [0; 3];
    for file in trained.others.iter().step_by(corpora::either(CORPUS, 10, 1)) {
        let message = corpora::read(file).unwrap();
        let args = ["-t", "--terse-format=%I|%Q|%A"];
        let output = trained.peer.filter(trained.scratch.path(), &args, &message).unwrap();
        tokenizer.tokens(&message, &mut |_| {});
        let facts = tokenizer.facts();
        let ours = [&facts.message_id, &facts.queue_id, &facts.address]
            .map(|fact| if fact.is_empty() { b"UNKNOWN" } else { fact.as_slice() });
        for (count, fact) in known.iter_mut().zip(ours) {
            *count += usize::from(fact != b"UNKNOWN");
        }
        let ours = [&ours.join(&b'|')[..], b"\n"].concat();
        let [ours, theirs] = [&ours, &output.stdout].map(|line| String::from_utf8_lossy(line));
        assert_eq!(ours, theirs, "{}", file.display());
    }
    eprintln!("{known:?} message ids, queue ids and addresses alike");
    assert!(known.into_iter().all(|count| count > 50), "{known:?}");
}
