//! What has become of what a run left half-done: who has it now, and whether it is in the state.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::RunStatus;
use super::event::{ChangedRow, RecordedEvent, RunEvent};
use crate::domain::id::{Actor, RunId, Serial};

/// What has become of what a run left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aftermath {
    /// Who had it last: a recovery, or the run itself where it was dropped at once. A recovery that died leaves it to the
    /// next one.
    pub run: RunId,
    /// Who recovered it, or dropped it.
    pub actor: Actor,
    /// When that was.
    pub at: DateTime<Utc>,
    /// What came of it.
    #[serde(flatten)]
    pub became: Became,
}

/// What came of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "became", rename_all = "snake_case")]
pub enum Became {
    /// It is not in the state, and stays reserved.
    Kept,
    /// The recovery goes on.
    UnderWay,
    /// The recovery came to its end.
    Recovered {
        /// The version that it made; none where there was nothing to take over.
        serial: Option<Serial>,
        /// Rows that it left alone, because somebody else had changed them since.
        left: Vec<ChangedRow>,
    },
    /// It was dropped: its real objects are nobody's.
    Dropped,
    /// The recovery is no longer known, so that it must have ended long ago.
    Forgotten,
}

impl Became {
    /// What became of a recovery that nobody has taken over in its turn.
    #[must_use]
    pub fn of(status: RunStatus, events: &[RecordedEvent]) -> Self {
        let serial = |event: &RunEvent| match event {
            RunEvent::Committed { serial, .. } => Some(*serial),
            _ => None,
        };
        let left = |event: &RunEvent| match event {
            RunEvent::NotRecovered { rows } => rows.clone(),
            _ => Vec::new(),
        };
        match status {
            RunStatus::Committed | RunStatus::Noop => Self::Recovered {
                serial: events.iter().find_map(|recorded| serial(&recorded.event)),
                left: events.iter().flat_map(|recorded| left(&recorded.event)).collect(),
            },
            status if !status.ended() => Self::UnderWay,
            _ if events.iter().any(|recorded| matches!(recorded.event, RunEvent::Discarded { .. })) => Self::Dropped,
            _ => Self::Kept,
        }
    }

    /// Whether nobody has to do anything about it any more.
    #[must_use]
    pub fn settled(&self) -> bool {
        !matches!(self, Self::Kept | Self::UnderWay)
    }

    /// Whether a recovery has looked at all of it.
    #[must_use]
    pub fn looked_at(&self) -> bool {
        matches!(self, Self::Recovered { .. } | Self::Forgotten)
    }
}

/// The last that a timeline says of what its run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastWord<'e> {
    /// A recovery has taken it over.
    TakenOver(RunId, DateTime<Utc>, &'e Actor),
    /// It was dropped.
    Dropped(DateTime<Utc>, &'e Actor),
}

/// The last that a timeline says of what its run left, and whether more was quarantined after that: Terraform may have gone
/// on unseen.
#[must_use]
pub fn last_word(events: &[RecordedEvent]) -> Option<(LastWord<'_>, bool)> {
    let mut more = false;
    for recorded in events.iter().rev() {
        match &recorded.event {
            RunEvent::TakenOver { by, actor } => return Some((LastWord::TakenOver(*by, recorded.at, actor), more)),
            RunEvent::Discarded { by, .. } => return Some((LastWord::Dropped(recorded.at, by), more)),
            RunEvent::Quarantined { .. } => more = true,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(events: &[RunEvent]) -> Vec<RecordedEvent> {
        let at = DateTime::UNIX_EPOCH;
        (1..).zip(events).map(|(seq, event)| RecordedEvent { seq, at, event: event.clone() }).collect()
    }

    fn actor(name: &str) -> Actor {
        Actor(name.to_owned())
    }

    #[test]
    fn the_last_word_counts_and_what_was_left_after_it() {
        let left = RunEvent::Quarantined { addresses: vec!["a.b".to_owned()] };
        let taken = RunEvent::TakenOver { by: RunId(uuid::Uuid::from_u128(9)), actor: actor("erin") };
        let dropped = RunEvent::Discarded { by: actor("bob"), freed: 1 };
        let found = |events: &[&RunEvent]| {
            let events: Vec<RunEvent> = events.iter().copied().cloned().collect();
            last_word(&timeline(&events)).map(|(word, more)| (matches!(word, LastWord::TakenOver(..)), more))
        };
        assert_eq!(found(&[&left]), None);
        assert_eq!(found(&[&left, &taken]), Some((true, false)));
        assert_eq!(found(&[&left, &taken, &left]), Some((true, true)));
        assert_eq!(found(&[&left, &taken, &dropped]), Some((false, false)));
    }

    #[test]
    fn a_recovery_has_done_what_its_status_and_its_timeline_say() {
        let of = |status, events: &[RunEvent]| Became::of(status, &timeline(events));
        assert_eq!(of(RunStatus::Reserved, &[]), Became::UnderWay);
        assert_eq!(of(RunStatus::Noop, &[]), Became::Recovered { serial: None, left: Vec::new() });
        for status in [RunStatus::Failed, RunStatus::Aborted, RunStatus::Lost] {
            assert_eq!(of(status, &[]), Became::Kept);
        }
        let dropped = RunEvent::Discarded { by: actor("bob"), freed: 1 };
        assert_eq!(of(RunStatus::Lost, &[dropped]), Became::Dropped);
    }
}
