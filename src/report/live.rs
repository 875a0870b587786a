//! Progress on a terminal that a person watches: a line for each resource that Terraform is working on, kept up to date
//! below the lines that stay.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use super::event::{Progress, Sink};
use super::style::{dim, duration, plain};
use super::terminal;
use crate::domain::run::event::{ResourceStep, RunEvent};

/// So many running resources have a line; the rest is counted.
const MAX_LINES: usize = 8;

/// Writes lines that stay, and below them one for each running resource.
pub struct LiveSink<W: Write + Send> {
    screen: Mutex<Screen<W>>,
}

struct Screen<W> {
    out: W,
    /// How many lines of the live part are on the screen.
    drawn: usize,
    /// Columns of the terminal: a longer line would wrap, and erasing counts lines.
    width: usize,
    /// Seconds since the sink was made, as counted by [`LiveSink::tick`].
    seconds: u64,
    /// Address → what is done to it, and since when.
    running: BTreeMap<String, (String, u64)>,
}

impl<W: Write + Send> LiveSink<W> {
    /// A sink that draws on a terminal of this width.
    pub fn new(out: W, width: usize) -> Self {
        let screen = Screen { out, drawn: 0, width, seconds: 0, running: BTreeMap::new() };
        Self { screen: Mutex::new(screen) }
    }

    /// To be called once a second, so that the times go on.
    pub fn tick(&self) {
        if let Ok(mut screen) = self.screen.lock() {
            screen.seconds += 1;
            if !screen.running.is_empty() {
                screen.show(&[]);
            }
        }
    }
}

impl<W: Write + Send> Sink for LiveSink<W> {
    fn emit(&self, progress: &Progress) {
        let Ok(mut screen) = self.screen.lock() else {
            return;
        };
        let mut stays = terminal::text(progress);
        if let Progress::Run(RunEvent::Resource { address, action, step, .. }) = progress {
            match step {
                ResourceStep::Started => {
                    let since = screen.seconds;
                    screen.running.insert(address.clone(), (action.clone(), since));
                    stays = None;
                }
                ResourceStep::Progress => stays = None,
                ResourceStep::Finished | ResourceStep::Failed => {
                    screen.running.remove(address);
                }
            }
        }
        screen.show(&stays.into_iter().collect::<Vec<_>>());
    }
}

impl<W: Write> Screen<W> {
    /// Takes the live part away, writes the lines that stay, and draws the live part again.
    fn show(&mut self, stays: &[String]) {
        let mut text = String::new();
        if self.drawn > 0 {
            // To the start of the line so many lines up, then clear everything below.
            text.push_str(&format!("\u{1b}[{}F\u{1b}[J", self.drawn));
        }
        for line in stays {
            text.push_str(line);
            text.push('\n');
        }
        let live = self.live();
        self.drawn = live.len();
        for line in live {
            text.push_str(&dim(line));
            text.push('\n');
        }
        // A closed terminal must not end an apply.
        drop(self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()));
    }

    fn live(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .running
            .iter()
            .take(MAX_LINES)
            .map(|(address, (action, since))| {
                let time = duration(std::time::Duration::from_secs(self.seconds.saturating_sub(*since)));
                self.fit(&format!("  … {}: {action} {time}", plain(address)))
            })
            .collect();
        if self.running.len() > MAX_LINES {
            lines.push(self.fit(&format!("  … and {} more", self.running.len() - MAX_LINES)));
        }
        lines
    }

    fn fit(&self, line: &str) -> String {
        // Wide letters take two columns: half as many always fit.
        let wide = line.chars().any(|letter| u32::from(letter) >= 0x1100);
        let room = self.width.saturating_sub(1);
        let room = if wide { room / 2 } else { room };
        if line.chars().count() <= room { line.to_owned() } else { line.chars().take(room).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(address: &str, step: ResourceStep) -> Progress {
        let (address, action) = (address.to_owned(), "create".to_owned());
        Progress::Run(RunEvent::Resource { address, action, step, elapsed_seconds: 3 })
    }

    fn written(sink: &LiveSink<Vec<u8>>) -> String {
        let bytes = std::mem::take(&mut sink.screen.lock().unwrap().out);
        anstream::adapter::strip_str(std::str::from_utf8(&bytes).unwrap()).to_string()
    }

    #[test]
    fn a_running_resource_has_a_line_whose_time_goes_on() {
        let sink = LiveSink::new(Vec::new(), 80);
        sink.emit(&resource("x.a", ResourceStep::Started));
        assert_eq!(written(&sink), "  … x.a: create 0s\n");
        sink.tick();
        sink.tick();
        assert!(written(&sink).ends_with("  … x.a: create 2s\n"));
        sink.emit(&resource("x.a", ResourceStep::Finished));
        assert_eq!(written(&sink), "  x.a: done (create, 3s)\n");
        sink.tick();
        assert_eq!(written(&sink), "");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let sink = LiveSink::new(Vec::new(), 20);
        sink.emit(&resource("module.a_rather_long_name.x.a", ResourceStep::Started));
        assert!(written(&sink).lines().all(|line| line.chars().count() < 20));
    }
}
