//! `kl exec` at a terminal: Terraform asks and is answered, and Ctrl-C reaches it once.

use std::fs;
use std::io::Write as _;

use nix::sys::signal::Signal;

use crate::backend::{listed, site};
use crate::harness::database::Database;
use crate::harness::kl::Running;
use crate::harness::site::Site;
use crate::harness::terraform::program;
use crate::stage::{CHAIN, Gates, runs, wait_for_runs};

on_both_databases!(
    terraform_asks_at_the_terminal_and_is_answered,
    ctrl_c_at_the_terminal_reaches_terraform_once,
    the_lock_is_free_when_the_terminal_is_gone,
);

/// A terminal with kl at it, and a keyboard.
struct Terminal {
    shows: Running,
    keyboard: fs::File,
}

impl Terminal {
    /// `kl exec -- terraform ARGS` in `live`, at a terminal of its own (`script` makes one).
    fn exec(site: &Site, name: &str, args: &str) -> Self {
        let keys = site.path(name);
        drop(site.kl().instead("mkfifo").arg(keys.as_str()).exits(0));
        let line =
            format!("exec '{}' exec --dir live --actor alice -- '{}' {args}", env!("CARGO_BIN_EXE_kl"), program());
        let quoted = line.replace('"', "\\\"");
        let shell = format!("exec script -qefc \"{quoted}\" /dev/null <{keys}");
        let shows = site.kl().instead("sh").args(["-c", &shell]).env("TERM", "dumb").spawn();
        // Opens as soon as the shell has opened it.
        let keyboard = fs::OpenOptions::new().write(true).open(&keys).unwrap();
        Self { shows, keyboard }
    }

    fn types(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
        self.keyboard.flush().unwrap();
    }
}

fn terraform_asks_at_the_terminal_and_is_answered(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    let mut terminal = Terminal::exec(&site, "keys-init", "init -no-color");
    terminal.shows.wait_to_print("successfully initialized", 1);
    drop(terminal.shows.exits(0));

    let apply = format!("apply -no-color -var={}", gates.var());
    let mut terminal = Terminal::exec(&site, "keys-no", &apply);
    terminal.shows.wait_to_print("Enter a value:", 1);
    terminal.types(b"no\n");
    let said = terminal.shows.exits(1).stdout;
    assert!(said.contains("cancelled"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM state_versions"), Some("0".into()));

    let mut terminal = Terminal::exec(&site, "keys-yes", &apply);
    terminal.shows.wait_to_print("Enter a value:", 1);
    terminal.types(b"yes\n");
    let said = terminal.shows.exits(0).stdout;
    assert!(said.contains("Apply complete! Resources: 3 added"), "{said}");
    assert!(runs(database, "reserved").is_empty());
}

/// Also when the standard input is something else, as in `yes | kl exec …`.
fn ctrl_c_at_the_terminal_reaches_terraform_once(database: &Database) {
    for (nth, input) in ["", "</dev/null"].into_iter().enumerate() {
        let site = site(database, CHAIN);
        let gates = Gates::new(&site);
        drop(Terminal::exec(&site, "keys-init", "init -no-color").shows.exits(0));
        gates.close("apply");
        let apply = format!("apply -auto-approve -no-color -var={} -var=value={nth} {input}", gates.var());
        let mut terminal = Terminal::exec(&site, "keys", &apply);
        gates.reached("apply");
        terminal.types(b"\x03");
        terminal.shows.wait_to_print("Interrupt received", 1);
        let said = terminal.shows.exits(1).stdout;
        assert!(!said.contains("Two interrupts received"), "{said}");
        // What was finished is in the state, and the lock is free.
        assert_eq!(listed(&site), ["terraform_data.first", "terraform_data.slow"]);
        assert!(runs(database, "reserved").is_empty());
    }
}

/// As when a window is closed or a connection breaks: the terminal's end reaches both, and kl outlives its command.
fn the_lock_is_free_when_the_terminal_is_gone(database: &Database) {
    let site = site(database, CHAIN);
    let gates = Gates::new(&site);
    drop(Terminal::exec(&site, "keys-init", "init -no-color").shows.exits(0));
    gates.close("apply");
    let apply = format!("apply -auto-approve -no-color -var={}", gates.var());
    let terminal = Terminal::exec(&site, "keys", &apply);
    gates.reached("apply");
    terminal.shows.signal(Signal::SIGKILL);
    drop(terminal.shows.ends());
    gates.open("apply");
    wait_for_runs(database, "reserved", 0);
    assert_eq!(
        database.value("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"),
        Some("0".into())
    );
}
