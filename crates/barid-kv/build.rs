//! Compiles the calls of Berkeley DB, whose interface only its header knows.

fn main() {
    println!("cargo::rerun-if-changed=csrc");
    #[cfg(feature = "bdb")]
    cc::Build::new().file("csrc/bdb.c").warnings(true).compile("barid_bdb");
}
