//! Process groups that outlive the kl that started them: told apart from others that got the same number later.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
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

/// SIGKILL to every member of a group that lives.
///
/// # Errors
/// When somebody else's processes are among them.
pub fn kill(group: &ProcessGroup) -> nix::Result<()> {
    match killpg(Pid::from_raw(group.id), Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error),
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
