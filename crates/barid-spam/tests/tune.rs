//! Choosing the spam filter's parameters.

use std::path::PathBuf;
use std::sync::Arc;

use barid::vfs::{MemVfs, Vfs};
use barid_spam::Error;
use barid_spam::bayes::{Parameters, Profile, Status};
use barid_spam::wordlist::Class;
use barid_spam::{Filter, Samples, Source, SpamOptions, Taken, TrainingKind, TuneOptions, Tuned};

/// Returns messages of a class: words of their own, words of both classes, and some that mislead.
fn messages(class: Class, count: u32, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let (own, other) = match class {
        Class::Spam => ("spamword", "hamword"),
        Class::Ham => ("hamword", "spamword"),
    };
    let message = |number: u32| {
        let mut text = format!(
            "Date: {:02} Nov 2026 12:00:{:02} +0000\nSubject: number {number}\n\n",
            1 + number % 28,
            number % 60
        );
        for _ in 0..12 {
            let word = random.u32(0..60);
            let of = if random.u32(0..10) < 7 { own } else { other };
            text += &format!("{of}{} ", letters(word));
        }
        text += &format!("neutral{} unique{}\n", letters(random.u32(0..9)), letters(number + 900));
        text.into_bytes()
    };
    (0..count).map(message).collect()
}

fn letters(mut number: u32) -> String {
    let mut text = String::new();
    for _ in 0..4 {
        text.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    text
}

fn filter(threads: usize) -> Filter {
    let options = SpamOptions { threads, ..SpamOptions::default() };
    filter_with(options)
}

fn filter_with(options: SpamOptions) -> Filter {
    Filter::new(Arc::new(MemVfs::new()) as Arc<dyn Vfs>, PathBuf::from("/wordlist"), options)
}

fn add(samples: &mut Samples<'_>, class: Class, messages: &[Vec<u8>]) -> Vec<Taken> {
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let mut told = Vec::new();
    samples.add(class, Source::Messages(&messages), &mut |_, taken| told.push(taken)).unwrap();
    told
}

fn tuned(filter: &Filter, options: &TuneOptions) -> Tuned {
    let mut random = fastrand::Rng::with_seed(11);
    let (spam, ham) =
        (messages(Class::Spam, 150, &mut random), messages(Class::Ham, 200, &mut random));
    let mut samples = filter.samples();
    add(&mut samples, Class::Spam, &spam);
    add(&mut samples, Class::Ham, &ham);
    samples.tune(options).unwrap()
}

#[test]
fn what_is_recommended_misses_less() {
    let options = TuneOptions { false_positives: 0.02, ..TuneOptions::default() };
    let tuned = self::tuned(&filter(0), &options);
    assert_eq!((tuned.tested.spam, tuned.tested.ham), (150, 200));
    assert_eq!((tuned.trained.spam, tuned.trained.ham), (135, 180));
    assert!(tuned.tried > 100, "{}", tuned.tried);
    let (now, recommended) = (tuned.now.errors, tuned.recommended.errors);
    assert!(recommended.missed() < now.missed(), "{now:?} {recommended:?}");
    assert!(recommended.ham_as_spam <= 4, "{recommended:?}");
    let is_near = tuned.expected.missed().abs_diff(recommended.missed()) < 30;
    assert!(is_near, "{:?} {recommended:?}", tuned.expected);
    // The answer does not depend on the number of threads.
    assert_eq!(self::tuned(&filter(1), &options), tuned);
    let other = self::tuned(&filter(0), &TuneOptions { seed: 2, ..options });
    assert_ne!(other.recommended, tuned.recommended);
}

/// The counted errors are those of a filter that was trained with the older half of the messages.
#[test]
fn errors_are_those_of_a_filter_that_was_taught() {
    let options = TuneOptions { is_chronological: true, ..TuneOptions::default() };
    let parameters = Parameters { min_dev: 0.1, robs: 0.1, ..Parameters::default() };
    let filter = filter_with(SpamOptions { parameters, ..SpamOptions::default() });
    let tuned = self::tuned(&filter, &options);
    let mut random = fastrand::Rng::with_seed(11);
    let (spam, ham) =
        (messages(Class::Spam, 150, &mut random), messages(Class::Ham, 200, &mut random));
    let day = |message: &[u8]| message[6..8].to_vec();
    let second = |message: &[u8]| message[24..26].to_vec();
    let key = |message: &[u8]| (day(message), second(message));
    let mut keys: Vec<_> = spam.iter().chain(&ham).map(|message| key(message)).collect();
    keys.sort();
    let middle = keys[keys.len() / 2].clone();
    let mut found = (0, 0);
    for (class, all) in [(Class::Spam, &spam), (Class::Ham, &ham)] {
        let older: Vec<&[u8]> =
            all.iter().map(Vec::as_slice).filter(|message| key(message) < middle).collect();
        let mut trainer = filter.trainer(TrainingKind::Train(class)).unwrap();
        trainer.add(Source::Messages(&older), &mut |_, _| {}).unwrap();
        let trained = trainer.finish(&mut |_, _| {}).unwrap();
        assert_eq!(trained.trained, older.len() as u64);
    }
    for (class, all) in [(Class::Spam, &spam), (Class::Ham, &ham)] {
        let newer = all.iter().filter(|message| key(message) >= middle);
        for message in newer {
            let status = filter.classify_message(message, false).unwrap().status;
            match class {
                Class::Spam => found.1 += u32::from(status != Status::Spam),
                Class::Ham => found.0 += u32::from(status == Status::Spam),
            }
        }
    }
    assert_eq!((tuned.now.errors.ham_as_spam, tuned.now.errors.missed()), found);
    assert!(found.1 > 0, "nothing was missed");
    assert_eq!(tuned.expected, tuned.recommended.errors);
}

#[test]
fn messages_count_once_and_some_are_needed() {
    let filter = filter(0);
    let mut random = fastrand::Rng::with_seed(5);
    let spam = messages(Class::Spam, 12, &mut random);
    let mut samples = filter.samples();
    let told = add(&mut samples, Class::Spam, &[spam.clone(), spam.clone()].concat());
    assert_eq!(told.iter().filter(|taken| matches!(taken, Taken::Twice)).count(), 12);
    assert_eq!(samples.len(), 12);
    let options = TuneOptions::default();
    assert!(matches!(samples.tune(&options), Err(Error::TooFewSamples { least: 10 })));
    add(&mut samples, Class::Ham, &messages(Class::Ham, 9, &mut random));
    assert!(matches!(samples.tune(&options), Err(Error::TooFewSamples { least: 10 })));
    let options = TuneOptions { folds: 3, searches: false, ..options };
    assert_eq!(samples.tune(&options).unwrap().tried, 1);
}

#[test]
fn saved_parameters_are_found_again() {
    let filter = filter_with(SpamOptions::new(Profile::Modern));
    assert_eq!(filter.saved_parameters().unwrap(), None);
    let parameters =
        Parameters { robs: 0.3, spam_cutoff: 0.987_654_321, ..Parameters::new(Profile::Modern) };
    let path = filter.save_parameters(&parameters).unwrap();
    assert_eq!(path, PathBuf::from("/wordlist.parameters"));
    let saved = filter.saved_parameters().unwrap().unwrap();
    assert_eq!((saved.profile, saved.parameters), (Profile::Modern, parameters));
}
