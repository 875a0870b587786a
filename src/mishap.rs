//! Mishaps on demand: tests make a step fail, stall or be the last one; a release build knows none.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::Utf8PathBuf;

/// What is to go wrong, if anything.
#[derive(Debug, Clone, Default)]
pub struct Mishaps(Option<Arc<Script>>);

#[derive(Debug)]
struct Script {
    ordered: Option<Mishap>,
    log: Option<Utf8PathBuf>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    passed: BTreeMap<String, u32>,
    /// Whether the database is away from now on.
    down: bool,
}

/// One mishap: at which pass of which point, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mishap {
    point: String,
    nth: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// This step fails, once.
    Fail,
    /// This step fails, and every later one that needs the database.
    Down,
    /// This step takes so much longer.
    Stall(Duration),
    /// The process is killed before this step.
    Kill,
}

/// A step of the database is `store/OPERATION/begin`, `…/commit` or `…/done`; a stage of the pipeline `stage/NAME`.
const STORE: &str = "store/";

/// The error of a step that was made to fail.
#[derive(Debug, thiserror::Error)]
#[error("a test made {0} fail")]
pub struct Struck(String);

impl Mishaps {
    /// Reads an order, as `store/commit the run/done#1=kill`; the kinds are `fail`, `down`, `kill` and `stall:MILLISECONDS`.
    /// Every point that is passed is written to `log`, one a line. A release build takes no orders.
    ///
    /// # Errors
    /// Names the order that cannot be read.
    pub fn read(order: Option<&str>, log: Option<Utf8PathBuf>) -> Result<Self, String> {
        if !cfg!(debug_assertions) || (order.is_none() && log.is_none()) {
            return Ok(Self::default());
        }
        let ordered =
            order.map(|order| parse(order).ok_or_else(|| format!("this is no mishap: {order:?}"))).transpose()?;
        Ok(Self(Some(Arc::new(Script { ordered, log, seen: Mutex::default() }))))
    }

    /// Passes a point; `name` is asked for only when somebody listens.
    ///
    /// # Errors
    /// When the step is to fail.
    pub async fn pass(&self, name: impl FnOnce() -> String) -> Result<(), Struck> {
        let Some(script) = &self.0 else { return Ok(()) };
        let name = name();
        script.note(&name);
        match script.due(&name) {
            None => Ok(()),
            Some(Kind::Stall(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Kind::Fail | Kind::Down) => Err(Struck(name)),
            Some(Kind::Kill) => {
                // Nothing gets a chance to clean up, as when a machine is lost.
                let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
                std::process::abort()
            }
        }
    }
}

impl Script {
    fn due(&self, name: &str) -> Option<Kind> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = seen.passed.entry(name.to_owned()).or_default();
        *passed += 1;
        let passed = *passed;
        let due = self.ordered.as_ref().filter(|mishap| mishap.point == name && mishap.nth == passed);
        let kind = due.map(|mishap| mishap.kind);
        seen.down |= kind == Some(Kind::Down);
        kind.or_else(|| (seen.down && name.starts_with(STORE)).then_some(Kind::Fail))
    }

    fn note(&self, name: &str) {
        let Some(path) = &self.log else { return };
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        drop(opened.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes())));
    }
}

fn parse(order: &str) -> Option<Mishap> {
    let (place, kind) = order.rsplit_once('=')?;
    let (point, nth) = place.rsplit_once('#')?;
    let kind = match kind.split_once(':') {
        None if kind == "fail" => Kind::Fail,
        None if kind == "down" => Kind::Down,
        None if kind == "kill" => Kind::Kill,
        Some(("stall", time)) => Kind::Stall(Duration::from_millis(time.parse().ok()?)),
        _ => return None,
    };
    Some(Mishap { point: point.to_owned(), nth: nth.parse().ok()?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mishap_strikes_at_its_point_and_no_other() {
        let mishaps = Mishaps::read(Some("store/commit the run/done#2=fail"), None).unwrap();
        let passed = async |name: &str| mishaps.pass(|| name.to_owned()).await.is_ok();
        assert!(passed("store/commit the run/done").await);
        assert!(passed("store/commit the run/begin").await);
        assert!(!passed("store/commit the run/done").await);
        assert!(passed("store/commit the run/done").await);
    }

    #[tokio::test]
    async fn a_database_that_is_down_stays_down() {
        let mishaps = Mishaps::read(Some("stage/commit#1=down"), None).unwrap();
        let passed = async |name: &str| mishaps.pass(|| name.to_owned()).await.is_ok();
        assert!(passed("store/tell the time/begin").await);
        assert!(!passed("stage/commit").await);
        assert!(!passed("store/tell the time/begin").await);
        assert!(passed("stage/report").await);
    }

    #[test]
    fn an_order_that_cannot_be_read_is_refused() {
        for order in ["", "kill", "x=kill", "x#1=melt", "x#one=kill", "x#1=stall:long"] {
            assert!(Mishaps::read(Some(order), None).is_err(), "{order}");
        }
    }
}
