//! Process groups that outlive the kl that started them: told apart from others that got the same number later.

use std::fs;
use std::path::Path;

use camino::Utf8Path;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::domain::run::workplace::ProcessGroup;

/// A group by its leader, which lives.
pub(super) fn of(leader: i32) -> ProcessGroup {
    ProcessGroup { id: leader, started: stat(leader).map(|stat| stat.started) }
}

/// Whether a member of the group lives. Only for groups of this machine, since its last start, seen from the same PID
/// namespace.
#[must_use]
pub fn lives(group: &ProcessGroup) -> bool {
    let number = Pid::from_raw(group.id);
    if killpg(number, None).is_err_and(|error| error == Errno::ESRCH) {
        return false;
    }
    // Somebody has the number. Without /proc there is no telling who: better to wait in vain than to go on in error.
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let Some(started) = group.started else { return true };
    // While a member lives, the number is given to nobody else; so a leader that started later is a stranger.
    if stat(group.id).is_some_and(|leader| leader.started != started) {
        return false;
    }
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(stat)
        .any(|process| process.group == group.id && process.started >= started && process.works)
}

/// Whether the leader of the group lives.
#[must_use]
pub fn leader_lives(group: &ProcessGroup) -> bool {
    stat(group.id).is_some_and(|leader| leader.works && group.started.is_none_or(|started| leader.started == started))
}

/// A process of a group, at work in the directory of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    id: i32,
    started: u64,
    /// Whether it is a Terraform, and not a provider, or what a provisioner runs.
    pub terraform: bool,
}

/// The members of a group that work in a directory, or run a program out of it. What a provisioner has started in order to
/// stay leaves both, and a stranger that got the number never was there. None where the group cannot be told from others.
#[must_use]
pub fn working_in(group: &ProcessGroup, dir: &Utf8Path) -> Vec<Member> {
    let (Ok(processes), Some(started)) = (fs::read_dir("/proc"), group.started) else { return Vec::new() };
    let real = dir.canonicalize_utf8().unwrap_or_else(|_| dir.to_owned());
    let inside = |path: &Path| path.starts_with(dir) || path.starts_with(&real);
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let members = numbers
        .filter_map(|id| Some((id, stat(id)?)))
        .filter(|(_, process)| process.group == group.id && process.started >= started && process.works);
    let at_work = members.filter_map(|(id, process)| {
        let link = |name: &str| fs::read_link(format!("/proc/{id}/{name}")).unwrap_or_default();
        let program = link("exe");
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let terraform = matches!(name, "terraform" | "tofu");
        (inside(&program) || inside(&link("cwd"))).then_some(Member { id, started: process.started, terraform })
    });
    at_work.collect()
}

impl Member {
    /// SIGKILL, if it is still the same process.
    pub fn kill(&self) {
        if stat(self.id).is_some_and(|process| process.started == self.started) {
            // Who may not, and who is gone, is seen by looking again.
            let _ = kill(Pid::from_raw(self.id), Signal::SIGKILL);
        }
    }
}

/// What `/proc/PID/stat` says.
struct Stat {
    group: i32,
    /// In clock ticks since the machine started.
    started: u64,
    /// A zombie is dead; it only waits for somebody to take note, in some containers for ever.
    works: bool,
}

fn stat(process: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The name stands in parentheses and may hold anything, so what counts comes after the last one.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        works: !matches!(*fields.first()?, "Z" | "X"),
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_trouble() {
        let text = "7 (a) b) (c) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 20 18446744073709551615";
        let stat = parse(text).unwrap();
        assert_eq!((stat.group, stat.started, stat.works), (42, 12345, true));
        assert!(!parse(&text.replace(" S ", " Z ")).unwrap().works);
        assert!(parse("").is_none());
    }

    #[test]
    fn a_group_is_known_by_the_time_of_its_leader() {
        let own = nix::unistd::getpgrp().as_raw();
        let Some(leader) = stat(own) else { return };
        assert!(lives(&ProcessGroup { id: own, started: Some(leader.started) }));
        assert!(!lives(&ProcessGroup { id: own, started: Some(leader.started + 1) }));
    }
}
