//! The script for bash.
//!
//! bash divides words at `:`, `=` and `@` too, and replaces only the last piece. The script joins
//! what the line has without blanks, and takes what stands before the last piece off the answers.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{Bash as ClapBash, EnvCompleter};

/// bash, as `clap_complete` knows it, with another script.
pub(super) struct Bash;

const SCRIPT: &str = r#"
_barid() {
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words current answer answers
    read -r -a words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    COMPREPLY=()
    mapfile -t -d $'\013' answers < <( \
        VARIABLE=bash \
        _CLAP_IFS=$'\013' \
        _CLAP_COMPLETE_INDEX=$(( ${#words[@]} - 1 )) \
        barid -- "${words[@]}" 2>/dev/null \
    )
    for answer in "${answers[@]}"; do
        answer=${answer#"${current%"$2"}"}
        # Names of files are anybody's: the shell must not take anything in them for its own.
        [[ $answer == "~"* ]] || printf -v answer %q "$answer"
        COMPREPLY+=("$answer")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -F _barid barid
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        ClapBash.name()
    }

    fn is(&self, name: &str) -> bool {
        ClapBash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        _: &str,
        _: &str,
        _: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(SCRIPT.trim_start().replace("VARIABLE", var).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        ClapBash.write_complete(command, args, folder, out)
    }
}
