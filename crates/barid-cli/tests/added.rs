//! The steps of `docs/add-a-subcommand.md`, checked for every command that there is.

use std::path::Path;

use barid_testkit::disk;

use crate::support::World;

#[test]
fn every_command_follows_the_page() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| disk::read_text(&crate_folder.join(name)).unwrap();
    let (cli, help_tests) = (read("src/cli.rs"), read("tests/help.rs"));
    let modules = read("src/commands/mod.rs") + &read("src/commands/change/mod.rs");
    let world = World::new();
    let help = world.ok(&["--help"]);
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let (first, rest) = name.split_at(1);
        let variant = format!("{}{rest}(Lazy<", first.to_uppercase());
        assert!(cli.contains(&variant), "{name}: no {variant} in cli.rs");
        let module = if name.starts_with("bogo") { "bogo" } else { name };
        let is_module = modules.contains(&format!("mod {module};"))
            || ["copy", "move", "reply", "forward"].contains(&name);
        assert!(is_module, "{name}: no module of commands");
        assert!(help_tests.contains(&format!("\"{name}\"")), "{name}: not in tests/help.rs");
        let golden = read(&format!("tests/help/barid-{name}.txt"));
        assert!(golden.contains("Examples:"), "{name}: no examples in its help");
    }
}
