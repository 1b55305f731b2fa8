//! Input from files, folders and lists of names.

use super::{Pair, mbox, names, some};

/// Writes files and folders of some messages.
fn boxes(pair: &Pair, messages: &[(String, Vec<u8>)]) {
    let bytes: Vec<Vec<u8>> = messages.iter().map(|(_, bytes)| bytes.clone()).collect();
    let mbox = mbox(&bytes);
    pair.world.write("box/mbox", &mbox);
    pair.world.write("box/behind", &[b"Subject: q\n\nhello\n\n", &mbox[..]].concat());
    pair.world.create_dir("box/md/new");
    pair.world.create_dir("box/md/tmp");
    for (index, bytes) in bytes.iter().enumerate() {
        let folder = if index % 2 == 0 { "cur" } else { "new" };
        pair.world.write(&format!("box/md/{folder}/{index}.x"), bytes);
        pair.world.write(&format!("box/mh/{index}"), bytes);
    }
    for name in ["mh/.hidden", "mh/a1", "md/new/.hidden", "mh/5dir/1"] {
        pair.world.write(&format!("box/{name}"), &bytes[0]);
    }
    pair.world.create_dir("box/empty");
}

#[test]
fn messages_of_files_and_folders() {
    let Some(pair) = Pair::trained(30) else { return };
    let messages = some(11, 8).unwrap();
    boxes(&pair, &messages);
    let file = &messages[0].0[..];
    for args in [
        &["-v", "-B", "box/md"][..],
        &["-v", "-B", "box/mh/"],
        &["-v", "-B", "box/mbox"],
        &["-v", "-B", "box/empty", "box/md/"],
        &["-v", "-M", "-B", "box/mbox", "box/behind", "box/md", file],
        &["-v", "-M", "-B", "box/behind"],
        &["-v", "-B", file, "nowhere", file],
        &["-v", "-B"],
        &["-v", "-I", "box/md"],
        &["-v", "-I", "box/mbox"],
        &["-v", "-I", "nowhere"],
        &["-v", "-M", "-I", "box/mbox"],
        &["-p", "-M", "-I", "box/mbox"],
        &["-p", "-B", file],
        &["-t", "-B", "box/md"],
        &["-T", "-B", "box/md"],
        &["-vq", "-B", "box/md"],
        &["-s", "-v", "-B", "box/md", "--quirks=word-counts"][..3],
    ] {
        pair.same(&[&["-C", "-d", "@"], args].concat(), b"");
    }
}

#[test]
fn messages_of_the_input() {
    let Some(pair) = Pair::trained(30) else { return };
    let messages = some(12, 8).unwrap();
    boxes(&pair, &messages);
    let mbox = pair.world.read("box/mbox");
    for flags in [&["-v", "-M"][..], &["-t", "-M"], &["-p", "-M"], &["-v"], &["-p"], &["-vv", "-M"]]
    {
        pair.same(&[&["-C", "-d", "@"], flags].concat(), &mbox);
        pair.same(&[&["-C", "-d", "@"], flags].concat(), &pair.world.read("box/behind"));
    }
    let files: Vec<String> = messages.iter().map(|(name, _)| name.clone()).collect();
    let all = names(&files);
    for flags in [&["-bv"][..], &["-b"], &["-bT"], &["-bt"], &["-bp"], &["-bvv"], &["-bve"]] {
        pair.same(&[&["-C", "-d", "@"], flags].concat(), &all);
    }
    // An empty name ends the run; the last name may lack its line end.
    pair.same(&["-C", "-d", "@", "-bv"], format!("{}\n\n{}\n", files[0], files[1]).as_bytes());
    pair.same(&["-C", "-d", "@", "-bv"], format!("{}\n{}", files[0], files[1]).as_bytes());
}

/// `-O` writes a file.
#[test]
fn a_message_is_written_to_a_file() {
    let Some(pair) = Pair::trained(30) else { return };
    for (_, message) in some(13, 4).unwrap() {
        pair.same(&["-C", "-d", "@", "-p", "-O", "@/out"], &message);
        assert_eq!(pair.world.read("theirs/out"), pair.world.read("ours/out"));
        pair.same(&["-C", "-d", "@", "-v", "-O", "out"], &message);
    }
}
