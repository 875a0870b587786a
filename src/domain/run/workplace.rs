//! Where the Terraform of a run works: on which machine, in which directory, as which processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::id::Serial;

/// A machine, told apart from others and from itself before its last start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, for people.
    pub name: String,
    /// Its identity; none where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The identity of its last start; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The PID namespace: containers on one machine do not see each other's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<String>,
}

/// A process group, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// Its number: that of its leader.
    pub id: i32,
    /// When the leader started, in clock ticks since the machine did; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
}

/// Where a run's Terraform works. Recorded before it begins, and forgotten when the run's own record of what it did is
/// complete: so a run that ended and still has one was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workplace {
    /// The machine.
    pub host: Host,
    /// The work directory.
    pub dir: String,
    /// The process group of the apply, once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<ProcessGroup>,
    /// The serial of the trunk that the slice was cut from.
    pub slice_serial: Serial,
}

impl Host {
    /// Whether process numbers of the other mean the same processes here.
    #[must_use]
    pub fn sees_processes_of(&self, other: &Self) -> bool {
        self.boot.is_some() && self == other
    }

    /// Whether directories of the other are those that are here, also after another start of the machine.
    #[must_use]
    pub fn has_directories_of(&self, other: &Self) -> bool {
        let identity = |host: &Self| (host.name.clone(), host.machine.clone(), host.processes.clone());
        self == other || (self.machine.is_some() && identity(self) == identity(other))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process group {}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_was_started_again_has_its_directories_and_not_its_processes() {
        let of = |name: &str, machine: Option<&str>, boot: &str, processes: &str| Host {
            name: name.to_owned(),
            machine: machine.map(str::to_owned),
            boot: Some(boot.to_owned()),
            processes: Some(processes.to_owned()),
        };
        let here = of("build-7", Some("m"), "b", "pid:[1]");
        let again = of("build-7", Some("m"), "c", "pid:[1]");
        assert!(here.has_directories_of(&here) && here.sees_processes_of(&here));
        assert!(here.has_directories_of(&again) && !here.sees_processes_of(&again));
        let others = [
            of("build-8", Some("m"), "b", "pid:[1]"),
            of("build-7", Some("n"), "b", "pid:[1]"),
            of("build-7", Some("m"), "b", "pid:[2]"),
            of("build-7", None, "c", "pid:[1]"),
        ];
        assert!(others.iter().all(|other| !here.has_directories_of(other) && !here.sees_processes_of(other)));
        let nameless = of("build-7", None, "b", "pid:[1]");
        assert!(!nameless.has_directories_of(&Host { boot: Some("c".to_owned()), ..nameless.clone() }));
        // Where the system tells none of it, the name has to do.
        let bare = Host { name: "laptop".to_owned(), machine: None, boot: None, processes: None };
        assert!(bare.has_directories_of(&bare) && !bare.sees_processes_of(&bare));
    }
}
