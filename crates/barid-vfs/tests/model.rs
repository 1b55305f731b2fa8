//! Random histories: the file system in memory must give the same answers as the real one.

use std::io::Result;

use barid_vfs::OpenOptions;
use fastrand::Rng;

use super::*;

const HISTORIES: u64 = 40;
const STEPS: usize = 150;
const NAMES: [&str; 8] = ["a", "b", "c", "a/x", "b/x", "a/x/y", "c/../a", "./b"];

/// Makes one random call; returns its result as text.
fn step(vfs: &dyn Vfs, root: &Path, rng: &mut Rng) -> String {
    let mut path = || root.join(NAMES[rng.usize(..NAMES.len())]);
    let (one, two) = (path(), path());
    let number = rng.u64(..2000);
    let unit = |result: Result<()>| format!("{:?}", result.map_err(|error| error.kind()));
    match rng.u32(..12) {
        0 | 1 => unit(vfs.create_dir(&one, 0o700)),
        2 => unit(vfs.rename(&one, &two)),
        3 => unit(vfs.hard_link(&one, &two)),
        4 => unit(vfs.remove_file(&one)),
        5 => unit(vfs.remove_dir(&one)),
        6 => unit(vfs.sync_dir(&one)),
        7 => unit(vfs.open(&one, OpenOptions::WRITE).and_then(|file| file.set_len(number))),
        8 => unit(vfs.open(&one, OpenOptions::create_new(0o600)).map(drop)),
        9 => unit(vfs.canonicalize(&one).map(drop)),
        10 => {
            let options =
                OpenOptions { truncate: number.is_multiple_of(5), ..OpenOptions::create(0o600) };
            unit(vfs.open(&one, options).map(drop))
        }
        _ => unit(
            vfs.open(&one, OpenOptions::WRITE)
                .and_then(|file| file.write_all_at(&[number as u8; 300], number)),
        ),
    }
}

/// Returns everything that is visible below a directory.
fn state(vfs: &dyn Vfs, root: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for name in names(vfs, &dir) {
            let path = dir.join(name);
            let metadata = vfs.symlink_metadata(&path).unwrap();
            let content = match metadata.file_type {
                FileType::Dir => {
                    dirs.push(path.clone());
                    String::new()
                }
                _ => format!("{} {:?}", metadata.links, vfs.read(&path, 1 << 20).unwrap()),
            };
            let shown = path.strip_prefix(root).unwrap().display().to_string();
            seen.push(format!("{shown} {:o} {content}", metadata.mode));
        }
    }
    seen.sort();
    seen
}

#[test]
fn memory_answers_as_the_disk_does() {
    let os = OsVfs;
    let mut answers = BTreeSet::new();
    for seed in 0..HISTORIES {
        let base = std::env::temp_dir().join(format!("barid-model-{}-{seed}", std::process::id()));
        let (memory, root) = (MemVfs::new(), PathBuf::from("/base/of/it"));
        os.create_dir(&base, 0o700).unwrap();
        memory.create_dir_all(&root, 0o700).unwrap();
        let mut rng = Rng::with_seed(seed);
        for at in 0..STEPS {
            let mut again = rng.clone();
            let real = step(&os, &base, &mut rng);
            assert_eq!(step(&memory, &root, &mut again), real, "seed {seed}, step {at}");
            answers.insert(real);
        }
        assert_eq!(state(&memory, &root), state(&os, &base), "seed {seed}");
        remove_all(&os, &base);
    }
    assert!(answers.len() >= 8, "{answers:?}");
}
