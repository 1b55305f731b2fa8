//! Answers about messages.

use barid_testkit::corpora;

use super::{CORPUS, DATE, Pair, Side, all_messages, check_same, names, some, spam_and_ham};

/// The flags for one message.
const FLAGS: &[&[&str]] = &[
    &[],
    &["-v"],
    &["-vv"],
    &["-vvv"],
    &["-t"],
    &["-T"],
    &["-p"],
    &["-p", "-v"],
    &["-p", "-vv"],
    &["-e", "-v"],
    &["-ep"],
    &["-R"],
    &["-R", "-v"],
    &["-p", "-R"],
    &["-q", "-vv"],
    &["-U", "-v"],
    &["-H", "-v"],
    &["-v", "-M"],
    &["-D", "-v"],
    &["-p", "--spam-subject-tag=***SPAM***", "--unsure-subject-tag=(maybe)"],
    &["-p", "--spam-header-place=Subject:"],
    &["-p", "-v", "--stats-in-header=no"],
    &["-p", "-vv", "--stats-in-header=no"],
    &["-p", "--terse=yes"],
    &["-p", "--spam-header-name=X-Spam"],
    &["-v", "--spam-header-name=X-Spam-Flag"],
    &["-v", "--spamicity-tags=Yes,No,Dunno"],
    &["-v", "--spamicity-formats=%8.3f,%.2e,%g"],
    &["-v", "--header-format=%h: %c %d %e %f %g %o %w %m %v %A %I %Q %u %% %#e"],
    &["-t", "--terse-format=%0.12f %12.3g %.3c %l", "-L", "tag"],
    &["-v", "-m", "0.1,0.05,0.4"],
    &["-v", "-m", ",,0.6"],
    &["-v", "-o", "0.6,0.2"],
    &["-v", "-o0.5"],
    &["-v", "--ham-cutoff=0"],
    &["-v", "--sp-esf=0.7", "--ns-esf=0.5"],
    &["-v", "--token-count=20"],
    &["-v", "--token-count-min=30", "--token-count-max=60"],
    &["-v", "--block-on-subnets=yes"],
    &["-v", "--replace-nonascii-characters=yes"],
    &["-v", "--multi-token-count=2"],
    &["-v", "--max-token-len=12", "--min-token-len=5"],
    &["-v", "--charset-default=utf-8"],
    &["--classify-f", "-v", "/nowhere"],
    &["-k", "16", "-v"],
];

/// All of dev-spam is registered; all of it, of dev-torture and of dev-rich is classified and
/// passed through.
#[test]
fn all_messages_are_registered_and_passed_through_alike() {
    let Some(pair) = Pair::trained(1) else { return };
    let lines = pair.same_lists("dev-spam");
    let all = all_messages().unwrap();
    let passed = pair.same(&["-C", "-d", "@", "-b", "-p"], &names(&all)).stdout;
    let (lines_min, messages_min, bytes_min) =
        corpora::either(CORPUS, (200_000, 8_279 + 500, 30_000_000), (3_000, 1_000, 3_000_000));
    assert!(lines > lines_min && all.len() > messages_min && passed.len() > bytes_min);
    println!("{lines} lines of word lists alike, {} messages passed through alike", all.len());
}

#[test]
fn scores_are_alike_to_the_last_digits() {
    let Some(pair) = Pair::trained(3) else { return };
    let all = all_messages().unwrap();
    let names = names(all.iter().step_by(corpora::either(CORPUS, 4, 1)));
    let args = ["-C", "-d", "@", "-b", "-TT"];
    let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
        let output = pair.run(side, "bogofilter", &args, &names);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
        let scores = lines.map(|(name, score)| (name.to_owned(), score.parse::<f64>().unwrap()));
        scores.collect::<Vec<_>>()
    });
    let scores_min = corpora::either(CORPUS, 2_000, 1_000);
    assert!(theirs.len() == ours.len() && theirs.len() > scores_min);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let is_same = theirs.0 == ours.0 && (theirs.1 - ours.1).abs() <= 1e-12;
        assert!(is_same, "{theirs:?} {ours:?}");
    }
    println!("{} scores alike", theirs.len());
}

#[test]
fn all_flags_say_the_same() {
    let Some(pair) = Pair::trained(20) else { return };
    let mut codes = [0; 4];
    for (seed, flags) in FLAGS.iter().enumerate() {
        for (_, message) in some(seed as u64, 8).unwrap() {
            let args = [&["-C", "-d", "@"], *flags].concat();
            let code = pair.same(&args, &message).status.code().unwrap();
            codes[usize::try_from(code).unwrap()] += 1;
        }
    }
    println!("{codes:?} spam, ham, unsure and failed runs alike");
    let least = corpora::either(CORPUS, 20, 5);
    assert!(codes[..3].iter().all(|count| *count > least), "{codes:?}");
}

/// Returns unusual messages.
fn odd_messages() -> Vec<Vec<u8>> {
    let long = |len: usize| vec![b'y'; len];
    let mut messages: Vec<Vec<u8>> = [
        &b""[..],
        b"\n",
        b"\r\n",
        b"Subject: x",
        b"Subject: x\n",
        b"Subject: x\r\n",
        b"Subject: x\n\n",
        b"Subject: x\r\n\r\nbody\r\n",
        b"Subject: x\r\n\r\nbody",
        b"Subject: x\n \t\nfoo bar\n",
        b"Subject: x\n\x08\nfoo bar\n",
        b"Subject: x\n \t\nX-Bogosity: a\nfoo bar\n\nbody",
        b"X-Bogosity: old\n more\nSubject: y\nX-Bogosity: z\n\nbody\nX-Bogosity: in body\n",
        b"X-Bogosity: old\nX-Bogosity: two\n",
        b"x-bogosity: old\nSubject: y\n\nbody\n",
        b"From a@b Thu\nX-Bogosity: q\nTo: b\n\nb\n",
        b"subject:nospace\n\nb",
        b"SUBJECT: a\nSubject: b\n\nb",
        b"no header at all",
        b"\n\n\nbody\n",
        b" leading\nA: b\n\nx\n",
        b"Subject: x\r\nA: b\n\nmixed\r\n",
        b"A: b\nSubject: x\r\n\r\nmixed\r\n",
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\nX-Bogosity: part\n\ntext\n--b--\n\
          X-Bogosity: epilogue\nfoo\n",
        b"Content-Type: message/rfc822\n\nX-Bogosity: inner\nSubject: in\n\nfoo\n",
        b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\nZm9vIGJhcg==",
        b"Message-ID: <1@x>\nSubject: a\n\nfoo\n.\nMAIL FROM:<b>\nbar\n",
        b"MAIL FROM:<a>\nSubject: q\n\nfoo\n.\nMAIL FROM:<b>\nbar\n",
        b"#! rmail 20\nSubject: q\n\nfoo bar\n#! rmail\nSubject: z\n\nbaz\n",
        b"Subject: \xe9\xe9\xe9 \x00 x\n\n\x00foo\x00bar\n",
    ]
    .iter()
    .map(|message| message.to_vec())
    .collect();
    for len in [1_361, 1_362, 1_363, 5_000] {
        messages.push([b"A: ", &long(len)[..], b"\nSubject: foo\n\nx"].concat());
        messages.push([b"A: ", &long(len)[..], b"Subject: foo\n\nx"].concat());
        messages.push([b"A: ", &long(len)[..], b"X-Bogosity: foo\nB: c\n\nx"].concat());
    }
    messages
}

#[test]
fn odd_messages_are_passed_through_alike() {
    let Some(pair) = Pair::trained(50) else { return };
    let tags = ["--spam-subject-tag=S", "--unsure-subject-tag=U"];
    let mut compared = 0;
    for message in odd_messages() {
        for flags in [
            &["-p"][..],
            &["-p", tags[0], tags[1], "--ham-cutoff=0.0001"],
            &["-p", "-v"],
            &["-p", "--spam-header-place=Subject:"],
            &["-p", "-M"],
            &["-v", "-M"],
        ] {
            pair.same(&[&["-C", "-d", "@"], flags].concat(), &message);
            compared += 1;
        }
    }
    println!("{compared} passed through alike");
    assert!(compared > 200);
}

/// bogofilter crashes here with a segmentation fault: it has no other class to compare with.
#[test]
fn words_of_one_class_say_nothing() {
    let Some(pair) = Pair::new() else { return };
    let message = b"Subject: pills\n\ncheap pills\n";
    let args = ["-C", "-d", "@", "-y", DATE, "-s"];
    pair.same(&args, message);
    let theirs = pair.run(Side::Theirs, "bogofilter", &["-C", "-d", "@", "-v"], message);
    let ours = pair.run(Side::Ours, "bogofilter", &["-C", "-d", "@", "-v"], message);
    check_same(&theirs, &ours, "-v");
    let table = pair.run(Side::Ours, "bogofilter", &["-C", "-d", "@", "-vvv"], message);
    assert_eq!(table.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&table.stdout).contains("\"pills\""));
}

#[test]
fn the_corpus_is_there() {
    let Some((spam, ham)) = spam_and_ham() else { return };
    let (spam_min, ham_min) = corpora::either(CORPUS, (2_000, 5_000), (250, 350));
    assert!(spam.len() > spam_min && ham.len() > ham_min, "{} {}", spam.len(), ham.len());
}
