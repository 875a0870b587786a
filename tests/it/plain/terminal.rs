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
    a_command_in_the_background_asks_when_it_is_in_the_foreground,
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
        let line =
            format!("exec '{}' exec --dir live --actor alice -- '{}' {args}", env!("CARGO_BIN_EXE_kl"), program());
        Self::shell(site, name, &line)
    }

    fn shell(site: &Site, name: &str, line: &str) -> Self {
        let keys = site.path(name);
        drop(site.kl().instead("mkfifo").arg(keys.as_str()).exits(0));
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

/// A job of a shell stops when it wants to read there, and goes on where it can. Then Ctrl-C is heard once, and the shell
/// has its terminal back.
fn a_command_in_the_background_asks_when_it_is_in_the_foreground(database: &Database) {
    let site = site(database, "");
    let script =
        "read word; echo got $word; trap 'echo INT; end=1' INT; echo trapped; until [ $end ]; do sleep 0.02; done";
    site.write("live/ask.sh", script);
    let kl = format!("'{}' exec --dir live -- sh ask.sh", env!("CARGO_BIN_EXE_kl"));
    let jobs = format!(
        "set -m\n{kl} &\nuntil [ \"$(jobs -s)\" ] || [ $SECONDS -gt 60 ]; do sleep 0.02; done\necho it has stopped\nfg\nread more\necho and $more\n"
    );
    site.write("jobs.sh", &jobs);
    let mut terminal = Terminal::shell(&site, "keys", "bash jobs.sh");
    terminal.shows.wait_to_print("it has stopped", 1);
    terminal.types(b"something\n");
    terminal.shows.wait_to_print("got something", 1);
    terminal.shows.wait_to_print("trapped", 1);
    terminal.types(b"\x03");
    terminal.shows.wait_to_print("INT\r\n", 1);
    terminal.types(b"more\n");
    let said = terminal.shows.exits(0).stdout;
    assert!(said.contains("and more") && said.matches("INT\r\n").count() == 1, "{said}");
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
