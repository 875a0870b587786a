//! The log of an apply that nobody listened to until its end: what it was still working on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};

use camino::Utf8Path;

use super::events::UiEvent;
use super::follow::STDOUT;
use crate::domain::run::in_flight::InFlight;

/// What the log of an apply says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ApplyLog {
    /// What it began with and did not end.
    pub in_flight: InFlight,
    /// Whether Terraform came to its end by itself: then nothing was in flight, whatever the lines say, but for what a
    /// provider that died was asked for.
    pub ended: bool,
}

/// Reads the log of the apply that had this directory for its output. None when there is no such log: no apply was
/// started there.
///
/// # Errors
/// When it cannot be read.
pub fn read_apply_log(output_dir: &Utf8Path) -> io::Result<Option<ApplyLog>> {
    let file = match File::open(output_dir.join(STDOUT)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut log = ApplyLog::default();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(event) = UiEvent::parse(&String::from_utf8_lossy(&line)) {
            event.tell(&mut log.in_flight);
        }
        line.clear();
    }
    log.ended = log.in_flight.is_over();
    if log.ended {
        log.in_flight.ended_by_itself(true);
    }
    Ok(Some(log))
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    fn log(lines: &[&str]) -> ApplyLog {
        let temp = tempfile::tempdir().unwrap();
        let dir = Utf8PathBuf::from_path_buf(temp.path().to_owned()).unwrap();
        assert_eq!(read_apply_log(&dir).unwrap(), None);
        std::fs::write(dir.join(STDOUT), lines.join("\n")).unwrap();
        read_apply_log(&dir).unwrap().unwrap()
    }

    fn line(kind: &str, address: &str) -> String {
        format!(r#"{{"@level":"info","type":"{kind}","hook":{{"resource":{{"addr":"{address}"}},"action":"create"}}}}"#)
    }

    #[test]
    fn what_began_and_did_not_end_was_in_flight() {
        let lines = [line("apply_start", "a.x"), line("apply_start", "a.y"), line("apply_complete", "a.x")];
        let found = log(&lines.each_ref().map(String::as_str));
        assert_eq!(found.in_flight.addresses().collect::<Vec<_>>(), ["a.y"]);
        assert!(!found.ended);
        // The last line is cut off.
        let cut = line("apply_complete", "a.y");
        let found = log(&[&lines[0], &lines[1], &lines[2], &cut[..cut.len() - 2]]);
        assert_eq!(found.in_flight.addresses().collect::<Vec<_>>(), ["a.y"]);
        assert!(found.in_flight.may_be_more());
    }

    #[test]
    fn a_terraform_that_came_to_its_end_left_nothing_in_flight() {
        let begun = line("apply_start", "a.x");
        for end in [
            r#"{"type":"change_summary","changes":{"operation":"apply","add":1}}"#,
            r#"{"type":"diagnostic","diagnostic":{"severity":"error","summary":"no"}}"#,
        ] {
            let found = log(&[&begun, end]);
            assert!(found.ended && found.in_flight.addresses().next().is_none(), "{found:?}");
        }
        let warned = r#"{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"hm"}}"#;
        assert!(!log(&[&begun, warned]).ended);
        let dropped = r#"{"type":"diagnostic","diagnostic":{"severity":"error","summary":"operation canceled"}}"#;
        assert!(!log(&[&begun, dropped]).ended);
    }
}
