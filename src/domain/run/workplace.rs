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
