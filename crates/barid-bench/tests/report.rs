//! The page of all runs, made of a small folder of invented ones.

use std::path::{Path, PathBuf};

use barid_bench::report::{Options, page};
use barid_testkit::{Scratch, disk};

use crate::support::{Ran, World, check_parts};

const MBOX: &str = "2026-01-02-test-mbox";
const HOSTILE: &str = "2026-01-03-<script>alert(1)<";

const SUMMARY: &str = "\
# Rewriting & <b>more</b>

- Runs: 2 of each, in turn

## Bars

| work | bar | measured |  |
| --- | --- | --- | --- |
| first sync | 1/6 of Dovecot's | 1/3.4 (1/3.6-1/3.2) | MISS |
| flag one | at most 10 ms | 6.2 ms | pass |

## Real time

| seconds | barid | dovecot |
| --- | ---: | ---: |
| first sync | 2.13 (2.00-2.19) | 7.16 (6.85-7.33) |

```
barid <sync> & more
```
";

const RAW: &str = "\
round,side,step,real_s,maxrss_bytes,index_bytes
0,barid,\"first sync\",9.75,20900000,1000000
0,dovecot,\"first sync\",9.85,68100000,2000000
1,barid,\"first sync\",2.0,20900000,1000000
1,dovecot,\"first sync\",7.0,68100000,2000000
2,barid,\"first sync\",2.5,20900000,1000000
2,dovecot,\"first sync\",1000.0,68100000,2000000
1,dovecot,\"<img src=x onerror='y'>\",1.0,1,1
";

const PUBLISHED: &str = "\
bench,report,work,system,value,quantity,step,sides
mbox,A report & its <author>,add headers,Dovecot 1.0,5:23,seconds,first sync,barid; dovecot
mbox,A report & its <author>,memory,Dovecot 1.0,25 MB,peak,first sync,barid
";

/// A folder of two runs and published figures beside it.
struct Runs {
    scratch: Scratch,
}

impl Runs {
    fn new() -> Self {
        let runs = Self { scratch: Scratch::new("report").unwrap() };
        let readme = "# A run\n\n`barid-bench mbox -t 2` on [`that`](other/file) machine\n";
        runs.write(&format!("runs/{MBOX}/README.md"), readme);
        runs.write(&format!("runs/{MBOX}/summary.md"), SUMMARY);
        runs.write(&format!("runs/{MBOX}/raw.csv"), RAW);
        runs.write(&format!("runs/{MBOX}/chart.svg"), "<svg not well-formed");
        runs.write(&format!("runs/{HOSTILE}/raw.csv"), RAW);
        runs.write("published.csv", PUBLISHED);
        runs
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.scratch.path().join(name);
        disk::create_dir_all(path.parent().unwrap()).unwrap();
        disk::write(&path, text.as_bytes()).unwrap();
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("runs")
    }

    fn page(&self) -> anyhow::Result<String> {
        page(&Options { runs: self.folder(), published: None })
    }

    /// Checks that the page is refused with an error that begins with a file below the runs.
    fn check_error(&self, file: &str, text: &[u8], expected: &str) {
        let path = self.folder().join(file);
        let before = disk::read(&path).unwrap_or_default();
        disk::write(&path, text).unwrap();
        let error = format!("{:#}", self.page().unwrap_err());
        let expected = format!("{}/{expected}", self.folder().display());
        assert!(error.starts_with(&expected), "{error}\n{expected}");
        disk::write(&path, &before).unwrap();
    }
}

#[test]
fn a_page_has_every_run_and_every_figure() {
    let runs = Runs::new();
    let page = runs.page().unwrap();
    check_well_formed(&page);
    assert_eq!(page, runs.page().unwrap(), "equal runs give equal pages");
    check_parts(
        &page,
        &[
            "<h3>2026-01-02-test-mbox</h3>",
            "<h3>2026-01-03-&lt;script&gt;alert(1)&lt;</h3>",
            "<h4>Bars: 1 passed, 1 missed</h4>",
            "<td class=\"miss\">missed</td>",
            "<td class=\"pass\">passed</td>",
            "<td>2026-01-02-test-mbox</td><td class=\"number\">1</td><td class=\"number\">1</td>",
            "<h2 id=\"other\">Other runs</h2>",
            // Medians, with the round of the check left out, and the winner.
            "<td class=\"number\">2.25 s</td><td class=\"number\">2.00 s</td>",
            "<td class=\"number\"><strong>fastest</strong></td><td class=\"number\">20.9 MB</td>",
            "<td class=\"number\">224 times</td>",
            // Published figures, and what stands beside them.
            "<td class=\"number\">5:23</td><td>barid 2.25 s; dovecot 504 s</td>",
            "<td class=\"number\">25 MB</td><td>barid 20.9 MB</td>",
            "barid &lt;sync&gt; &amp; more",
        ],
    );
    for cell in SUMMARY.lines().chain(RAW.lines()).flat_map(|line| line.split(['|', ','])) {
        let cell = cell.trim_matches([' ', '"', '-', ':']);
        let is_figure = cell.starts_with(|c: char| c.is_ascii_digit());
        let shown = cell.replace('\'', "&#39;");
        assert!(!is_figure || page.contains(&format!(">{shown}</td>")), "{cell}");
    }
}

#[test]
fn a_page_loads_and_runs_nothing() {
    let page = Runs::new().page().unwrap();
    for part in ["<script", "<img", "<link", "<iframe", "@import", "url(", "src=\"", "http-equiv"] {
        assert!(!page.contains(part), "{part}");
    }
    let links = page.split("href=\"").skip(1);
    assert!(links.into_iter().all(|link| link.starts_with('#')), "links lead into the page only");
    assert_eq!(page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count(), 4);
    assert_eq!(page.matches("http").count(), 4, "nothing else names another place");
}

#[test]
fn errors_name_file_and_line() {
    let runs = Runs::new();
    let [raw, summary] = ["raw.csv", "summary.md"].map(|name| format!("{MBOX}/{name}"));
    let short = RAW.replace("2.0,20900000,", "2.0,");
    let expected = format!("{raw}:4: 5 cells in a row, 6 in the head");
    runs.check_error(&raw, short.as_bytes(), &expected);
    let word = RAW.replace("2.5,", "fast,");
    runs.check_error(&raw, word.as_bytes(), &format!("{raw}:6: real_s is not a number: \"fast\""));
    let open = SUMMARY.replace("more\n```\n", "more\n");
    let expected = format!("{summary}:18: a block of code does not end");
    runs.check_error(&summary, open.as_bytes(), &expected);
    let expected = format!("{summary}:3: not UTF-8");
    runs.check_error(&summary, b"# a\n\n\xff\n", &expected);
    let json = format!("{MBOX}/results.json");
    runs.write(&format!("runs/{json}"), "{\"runs\":[]}");
    runs.check_error(&json, b"{\n\"runs\":3}", &format!("{json}: invalid type"));
    disk::remove_tree(&runs.folder().join(HOSTILE)).unwrap();
    runs.write("runs/empty/chart.svg", "");
    let error = runs.page().unwrap_err().to_string();
    assert!(error.ends_with("/empty: neither a summary nor measurements"), "{error}");
}

#[test]
fn the_program_writes_the_page() {
    let (runs, world) = (Runs::new(), World::new());
    let folder = runs.folder().display().to_string();
    let printed = world.ok(&["report", &folder]);
    assert_eq!(printed, runs.page().unwrap());
    assert_eq!(world.ok(&["report", &folder, "--out", "runs.html"]), "");
    assert_eq!(world.read("runs.html"), printed.as_bytes());
    let Ran { code, stderr, .. } = world.run(&["report", "nowhere"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("error: nowhere: "), "{stderr}");
    let Ran { code, stderr, .. } = world.run(&["report", &folder, "--json"]);
    assert_eq!((code, stderr.contains("no JSON")), (2, true), "{stderr}");
}

#[test]
fn the_runs_of_the_repository_make_a_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let runs = root.join("bench/runs");
    let page = page(&Options { runs: runs.clone(), published: None }).unwrap();
    check_well_formed(&page);
    for folder in disk::list_folders(&runs).unwrap() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(page.contains(&format!("<h3>{name}</h3>")), "{name}");
    }
    assert!(!page.contains("<h2 id=\"other\">"), "every run is of a bench");
    check_parts(&page, &["<td class=\"number\">39:58</td>", "NeoMutt lmdb", "bogofilter of 2003"]);
}

/// Checks that every element of a page is closed in order, attributes are quoted, and no mark is
/// left unescaped.
fn check_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let (first, rest) = body.split_once('<').unwrap();
    assert_eq!(first, "");
    for part in rest.split('<') {
        let Some((tag, text)) = part.split_once('>') else { panic!("not a tag: {part:.80}") };
        assert!(!text.contains('>'), "an unescaped mark in {text:.80}");
        let references = text.split('&').skip(1);
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;", "#39;"];
        for reference in references {
            assert!(known.iter().any(|name| reference.starts_with(name)), "{reference:.20}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "an element is closed that is not open");
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split(' ').next().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{tag:.80}");
        let marks: Vec<&str> = tag.split('"').collect();
        assert_eq!(marks.len() % 2, 1, "a quote is open: {tag:.80}");
        let names = marks.iter().step_by(2).take(marks.len() / 2);
        assert!(names.into_iter().all(|name| name.ends_with('=')), "{tag:.80}");
        if !is_closed {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
