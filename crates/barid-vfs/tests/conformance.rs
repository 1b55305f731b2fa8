//! Behaviour that callers may expect of every `Vfs`.

use std::io::{ErrorKind, Result};

use barid_vfs::{File, FileStamp, FileType, OpenOptions, Timestamp};

use super::*;

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("because it must fail").kind()
}

fn put(vfs: &Arc<dyn Vfs>, path: &Path, content: &[u8]) -> Box<dyn File> {
    let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
    file.write_all_at(content, 0).unwrap();
    file
}

#[test]
fn opening() {
    each("opening", |vfs, dir| {
        let path = dir.join("f");
        assert_eq!(kind(vfs.open(&path, OpenOptions::READ)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.open(&path, OpenOptions::WRITE)), ErrorKind::NotFound);
        let file = vfs.open(&path, OpenOptions::create_new(0o600)).unwrap();
        assert_eq!(file.metadata().unwrap().mode, 0o600);
        assert_eq!(kind(vfs.open(&path, OpenOptions::create_new(0o600))), ErrorKind::AlreadyExists);
        file.write_all_at(b"content", 0).unwrap();
        let again = vfs.open(&path, OpenOptions::create(0o644)).unwrap();
        assert_eq!(again.metadata().unwrap().size, 7);
        let truncate = OpenOptions { truncate: true, ..OpenOptions::WRITE };
        vfs.open(&path, truncate).unwrap();
        assert_eq!(file.metadata().unwrap().size, 0);
        assert!(vfs.open(&path, OpenOptions::READ).unwrap().write_at(b"x", 0).is_err());
        assert_eq!(kind(vfs.open(dir, OpenOptions::WRITE)), ErrorKind::IsADirectory);
        assert_eq!(kind(vfs.open(&path.join("x"), OpenOptions::READ)), ErrorKind::NotADirectory);
        assert_eq!(kind(vfs.open_dir(&path)), ErrorKind::NotADirectory);
        let long = dir.join("n".repeat(256));
        assert_eq!(kind(vfs.metadata(&long)), ErrorKind::InvalidFilename);
    });
}

#[test]
fn reading_and_writing() {
    each("reading", |vfs, dir| {
        let file = put(vfs, &dir.join("f"), b"0123456789");
        let mut buffer = [0; 4];
        assert_eq!(file.read_full_at(&mut buffer, 8).unwrap(), 2);
        assert_eq!(file.read_at(&mut buffer, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
        assert_eq!(kind(file.read_exact_at(&mut buffer, 8)), ErrorKind::UnexpectedEof);
        file.write_all_at(b"ab", 12).unwrap();
        file.set_len(13).unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert_eq!(vfs.read(&dir.join("f"), 13).unwrap(), b"0123456789\0\0a");
        assert_eq!(kind(vfs.read(&dir.join("f"), 12)), ErrorKind::FileTooLarge);
        file.allocate(5, 20).unwrap();
        file.allocate(0, 3).unwrap();
        assert_eq!(vfs.metadata(&dir.join("f")).unwrap().size, 25);
        let unlinked = put(vfs, &dir.join("gone"), b"still");
        vfs.remove_file(&dir.join("gone")).unwrap();
        assert_eq!(unlinked.read_full_at(&mut buffer, 1).unwrap(), 4);
        assert_eq!((&buffer, unlinked.metadata().unwrap().links), (b"till", 0));
    });
}

#[test]
fn names_of_files() {
    each("names", |vfs, dir| {
        let (one, two) = (dir.join("one"), dir.join("two"));
        let file = put(vfs, &one, b"1");
        vfs.hard_link(&one, &two).unwrap();
        assert_eq!(kind(vfs.hard_link(&one, &two)), ErrorKind::AlreadyExists);
        assert_eq!(file.metadata().unwrap().links, 2);
        let stamp = FileStamp::from(&vfs.metadata(&two).unwrap());
        assert_eq!(stamp.inode, file.metadata().unwrap().inode);
        put(vfs, &dir.join("three"), b"3");
        vfs.rename(&dir.join("three"), &two).unwrap();
        assert_eq!(file.metadata().unwrap().links, 1);
        assert_eq!(vfs.read(&two, 9).unwrap(), b"3");
        assert_eq!(kind(vfs.rename(&dir.join("three"), &two)), ErrorKind::NotFound);
        vfs.sync_dir(dir).unwrap();
        vfs.remove_file(&one).unwrap();
        assert_eq!(kind(vfs.remove_file(&one)), ErrorKind::NotFound);
        assert_eq!(names(vfs.as_ref(), dir), BTreeSet::from(["two".to_owned()]));
    });
}

#[test]
fn names_that_are_new() {
    each("new names", |vfs, dir| {
        let (one, two) = (dir.join("one"), dir.join("two"));
        put(vfs, &one, b"1");
        put(vfs, &two, b"2");
        assert_eq!(kind(vfs.rename_new(&one, &two)), ErrorKind::AlreadyExists);
        assert_eq!(vfs.read(&two, 9).unwrap(), b"2");
        vfs.remove_file(&two).unwrap();
        vfs.rename_new(&one, &two).unwrap();
        assert_eq!(vfs.read(&two, 9).unwrap(), b"1");
        assert_eq!(kind(vfs.rename_new(&one, &dir.join("three"))), ErrorKind::NotFound);
    });
}

#[test]
fn directories() {
    each("directories", |vfs, dir| {
        let sub = dir.join("a/b");
        assert_eq!(kind(vfs.create_dir(&sub, 0o700)), ErrorKind::NotFound);
        vfs.create_dir_all(&sub, 0o700).unwrap();
        vfs.create_dir_all(&sub, 0o700).unwrap();
        assert_eq!(kind(vfs.create_dir(&sub, 0o700)), ErrorKind::AlreadyExists);
        assert_eq!(kind(vfs.remove_dir(&dir.join("a"))), ErrorKind::DirectoryNotEmpty);
        put(vfs, &sub.join("f"), b"x");
        vfs.create_dir(&dir.join("d"), 0o700).unwrap();
        assert_eq!(kind(vfs.remove_dir(&sub.join("f"))), ErrorKind::NotADirectory);
        assert_eq!(kind(vfs.remove_file(&sub)), ErrorKind::IsADirectory);
        assert_eq!(kind(vfs.rename(dir, &sub.join("x"))), ErrorKind::InvalidInput);
        assert_eq!(kind(vfs.rename(&sub.join("f"), &dir.join("d"))), ErrorKind::IsADirectory);
        vfs.rename(&sub, &dir.join("c")).unwrap();
        assert_eq!(vfs.metadata(&dir.join("c/f")).unwrap().file_type, FileType::File);
        assert_eq!(vfs.metadata(&dir.join("c")).unwrap().file_type, FileType::Dir);
        assert_eq!(vfs.canonicalize(&dir.join("a/../c/./f")).unwrap(), dir.join("c/f"));
        assert_eq!(kind(vfs.canonicalize(&dir.join("a/f"))), ErrorKind::NotFound);
    });
}

#[test]
fn an_open_directory() {
    each("listing", |vfs, dir| {
        let count = if vfs.process().host == "memory" { 300 } else { 3000 };
        let long = "n".repeat(100);
        for number in 0..count {
            drop(put(vfs, &dir.join(format!("{long}{number}")), b"x"));
        }
        vfs.create_dir(&dir.join("sub"), 0o700).unwrap();
        let open = vfs.open_dir(dir).unwrap();
        for _ in 0..2 {
            let (mut files, mut dirs) = (BTreeSet::new(), 0);
            let visited = open.list(&mut |name, file_type| match file_type {
                FileType::Dir => dirs += 1,
                _ => assert!(files.insert(name.to_vec())),
            });
            visited.unwrap();
            assert_eq!((files.len(), dirs), (count, 1));
        }
        drop(put(vfs, &dir.join("f"), b"0123456789"));
        let mut buffer = [0; 4];
        let (metadata, len) = open.read_head(b"f", &mut buffer).unwrap();
        assert_eq!((metadata.size, len, &buffer), (10, 4, b"0123"));
        let stamp = FileStamp::from(&metadata);
        assert_eq!(stamp, FileStamp::from(&open.metadata(b"f").unwrap()));
        let (_, len) = open.read_head(b"f", &mut [0; 64]).unwrap();
        assert_eq!(len, 10);
        assert_eq!(kind(open.read_head(b"g", &mut buffer)), ErrorKind::NotFound);
        assert_eq!(kind(open.read_head(&[b'n'; 256], &mut buffer)), ErrorKind::InvalidFilename);
        let file = open.open(b"f", OpenOptions::WRITE).unwrap();
        file.write_all_at(b"X", 0).unwrap();
        assert_eq!(vfs.read(&dir.join("f"), 99).unwrap(), b"X123456789");
    });
}

#[test]
fn attributes() {
    each("attributes", |vfs, dir| {
        let path = dir.join("f");
        drop(put(vfs, &path, b""));
        assert_eq!(vfs.xattr(&path, "user.barid.test").unwrap(), None);
        vfs.remove_xattr(&path, "user.barid.test").unwrap();
        assert_eq!(kind(vfs.xattr(&dir.join("g"), "user.barid.test")), ErrorKind::NotFound);
        for value in [b"short".to_vec(), vec![b'l'; 1000]] {
            match vfs.set_xattr(&path, "user.barid.test", &value) {
                Err(error) if error.kind() == ErrorKind::Unsupported => return,
                result => result.unwrap(),
            }
            assert_eq!(vfs.xattr(&path, "user.barid.test").unwrap(), Some(value));
        }
        let taken = vfs.create_xattr(&path, "user.barid.test", b"new");
        assert_eq!(kind(taken), ErrorKind::AlreadyExists);
        assert_eq!(vfs.xattr(&path, "user.barid.test").unwrap(), Some(vec![b'l'; 1000]));
        vfs.remove_xattr(&path, "user.barid.test").unwrap();
        assert_eq!(vfs.xattr(&path, "user.barid.test").unwrap(), None);
        vfs.create_xattr(&path, "user.barid.test", b"new").unwrap();
        assert_eq!(vfs.xattr(&path, "user.barid.test").unwrap(), Some(b"new".to_vec()));
    });
}

#[test]
fn times() {
    each("times", |vfs, dir| {
        let path = dir.join("f");
        let file = put(vfs, &path, b"");
        let before = file.metadata().unwrap();
        let set = Timestamp { unix_nanos: -1_500_000_001 };
        vfs.set_times(&path, Timestamp::default(), set).unwrap();
        let after = file.metadata().unwrap();
        assert_eq!((after.modified, after.accessed), (set, Timestamp::default()));
        assert!(after.changed >= before.changed);
        assert!((before.modified.unix_seconds() - vfs.now().unix_seconds()).abs() < 60);
        let process = vfs.process();
        assert!(vfs.process_alive(process.pid) && !vfs.process_alive(0x7fff_fff0));
        let mut random = [[0; 32]; 2];
        random.iter_mut().for_each(|bytes| vfs.random(bytes).unwrap());
        assert!(random[0] != random[1] && random[0] != [0; 32]);
    });
}

#[test]
fn permission_bits() {
    each("modes", |vfs, dir| {
        let path = dir.join("file");
        let file = put(vfs, &path, b"one");
        for mode in [0o640, 0o755, 0o600] {
            let before = file.metadata().unwrap();
            file.set_mode(mode).unwrap();
            let after = vfs.metadata(&path).unwrap();
            assert_eq!((after.mode & 0o7777, after.modified), (mode, before.modified));
            assert!(after.changed >= before.changed);
            assert_eq!(file.metadata().unwrap(), after);
        }
    });
}

#[test]
fn blocks_taken_out() {
    each("collapse", |vfs, dir| {
        let path = dir.join("f");
        let block = vfs.block_size(dir).unwrap();
        let content: Vec<u8> = (0..block * 4 + 9).map(|at| (at / 7) as u8).collect();
        let file = put(vfs, &path, &content);
        file.sync_data().unwrap();
        assert!(vfs.free_space(&path).unwrap() > block && block.is_power_of_two());
        match file.collapse(block, 2 * block) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return,
            result => result.unwrap(),
        }
        let (start, end) = (block as usize, 3 * block as usize);
        let expected = [&content[..start], &content[end..]].concat();
        assert_eq!(vfs.read(&path, 1 << 20).unwrap(), expected);
        for (offset, len) in [(0, 1), (1, block), (0, 0), (block, 2 * block), (0, 9 * block)] {
            assert_eq!(kind(file.collapse(offset, len)), ErrorKind::InvalidInput, "{offset} {len}");
        }
        assert_eq!(kind(file.collapse(2 * block, block)), ErrorKind::InvalidInput);
        let reader = vfs.open(&path, OpenOptions::READ).unwrap();
        assert!(reader.collapse(0, block).is_err());
        assert_eq!(vfs.read(&path, 1 << 20).unwrap(), expected);
    });
}

#[test]
fn holes() {
    each("holes", |vfs, dir| {
        let block = vfs.block_size(dir).unwrap();
        let file = put(vfs, &dir.join("f"), &vec![b'x'; 2 * block as usize]);
        file.sync_all().unwrap();
        assert_eq!(file.first_hole(0).unwrap(), None);
        assert_eq!(file.first_hole(2 * block).unwrap(), None);
        assert_eq!(file.first_hole(9 * block).unwrap(), None);
        file.set_len(4 * block).unwrap();
        file.write_all_at(b"x", 3 * block).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.first_hole(0).unwrap(), Some(2 * block));
        assert_eq!(file.first_hole(2 * block + 1).unwrap(), Some(2 * block + 1));
        assert_eq!(file.first_hole(3 * block).unwrap(), None);
        file.write_all_at(b"x", 2 * block).unwrap();
        file.allocate(4 * block, block).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.first_hole(0).unwrap(), Some(4 * block));
        assert_eq!(file.metadata().unwrap().size, 5 * block);
    });
}

#[test]
fn an_open_file_keeps_its_times_and_attributes_through_a_rename() {
    each("open-file", |vfs, dir| {
        let (path, moved) = (dir.join("f"), dir.join("g"));
        let file = put(vfs, &path, b"");
        vfs.rename(&path, &moved).unwrap();
        let set = Timestamp { unix_nanos: 1_500_000_000_123_456_789 };
        file.set_times(Timestamp::default(), set).unwrap();
        let metadata = vfs.metadata(&moved).unwrap();
        assert_eq!((metadata.modified, metadata.accessed), (set, Timestamp::default()));
        assert_eq!(metadata.device, vfs.metadata(dir).unwrap().device);
        assert_eq!(file.xattr("user.barid.test").unwrap(), None);
        file.remove_xattr("user.barid.test").unwrap();
        match file.set_xattr("user.barid.test", &[b'l'; 1000]) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return,
            result => result.unwrap(),
        }
        assert_eq!(file.xattr("user.barid.test").unwrap(), Some(vec![b'l'; 1000]));
        assert_eq!(vfs.xattr(&moved, "user.barid.test").unwrap(), Some(vec![b'l'; 1000]));
        file.remove_xattr("user.barid.test").unwrap();
        assert_eq!(vfs.xattr(&moved, "user.barid.test").unwrap(), None);
    });
}
