//! Links the program for a fast start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // Mail filters start one process per message. At a fixed address, nothing in the program needs
    // relocation at startup; otherwise 14,000 addresses do, with a copy of every page that contains
    // one, a tenth of the total cost of a process for one message. Stack, heap and libraries stay
    // randomized.
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
