//! `barid extract-text`: the helper that reads one attachment for another process of this program.
//!
//! It is handled before anything else, so that a helper is a small process: a document on standard
//! input, its text on standard output, and the reason why there is none on standard error.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use barid_extract::{DocumentType, HelperOptions, run_helper};

/// Runs the helper if this process was started as one.
pub(crate) fn called() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != "extract-text" {
        return None;
    }
    let Some(options) = parse(args) else {
        let usage = b"usage: barid extract-text --type office|pdf|html|text [--charset=NAME]\n";
        let _ = std::io::stderr().write_all(usage);
        return Some(ExitCode::from(2));
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let code = run_helper(&options, &mut input, &mut output, &mut std::io::stderr());
    Some(ExitCode::from(code))
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Option<HelperOptions> {
    let (mut document_type, mut charset, mut pdf_reader) = (None, String::new(), None);
    let mut parent = None;
    while let Some(arg) = args.next() {
        match arg.to_str()? {
            "--type" => document_type = DocumentType::named(args.next()?.to_str()?),
            "--pdf-reader" => pdf_reader = Some(args.next()?.into()),
            other => match other.split_once('=')? {
                ("--charset", name) => charset = name.to_owned(),
                ("--parent", process) => parent = Some(process.parse().ok()?),
                _ => return None,
            },
        }
    }
    Some(HelperOptions { document_type: document_type?, charset, pdf_reader, parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_exact() {
        let check = |line: &str| parse(line.split_whitespace().map(OsString::from));
        let options = check("--type pdf --pdf-reader /bin/x --charset=utf-8 --parent=7").unwrap();
        assert_eq!(options.document_type, DocumentType::Pdf);
        assert_eq!(
            (options.charset.as_str(), options.pdf_reader),
            ("utf-8", Some("/bin/x".into()))
        );
        for line in
            ["", "--type", "--type exe", "--charset=x", "--type text x", "--type text --parent=x"]
        {
            assert_eq!(check(line), None, "{line}");
        }
    }
}
