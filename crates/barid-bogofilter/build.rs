//! Links the program for a fast start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // One process a message is how mail is filtered. At a fixed address nothing of the program has
    // to be relocated when it starts: 14,000 addresses, and a copy of every page that holds one, a
    // tenth of all that a process does for one message. Stack, heap and libraries stay where chance
    // puts them.
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
