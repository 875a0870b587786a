//! Standard output is for results, standard error for talk; colours where they are seen.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use anstream::{AutoStream, ColorChoice};
use serde_json::{Value, json};

use super::args::{Color, Format, Global};
use crate::error::KlError;
use crate::report::event::Sink;
use crate::report::json;
use crate::report::live::LiveSink;
use crate::report::markdown::{Block, Language};
use crate::report::page::Page;
use crate::report::style::{dim, loud};
use crate::report::terminal::TerminalSink;

/// Where a command prints.
pub struct Output {
    format: Format,
    quiet: bool,
    color: ColorChoice,
}

/// From the top left corner of an empty screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// A text of several lines without other control characters: names come from outside, and must not move the cursor. The
/// escapes of kl's own colours stay.
fn lines(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() && !"\n\t\u{1b}".contains(letter) { '\u{FFFD}' } else { letter })
        .collect()
}

impl Output {
    /// As the global options say.
    #[must_use]
    pub fn new(global: &Global) -> Self {
        let color = match global.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        Self { format: global.format, quiet: global.quiet, color }
    }

    /// Whether a program reads the result.
    #[must_use]
    pub fn json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints a result: text for people, or the document for programs. In Markdown the text stands as it is, in a fence.
    pub fn result(&self, text: &str, document: impl FnOnce() -> Value) {
        match self.format {
            Format::Json => self.data(&format!("{}\n", json::document(document()))),
            Format::Table => self.data(text),
            Format::Markdown => {
                let text = anstream::adapter::strip_str(text).to_string();
                self.data(&format!("{}\n", Block::fence(Language::Text, text.trim_end()).as_str()));
            }
        }
    }

    /// Prints a page: for a terminal, as Markdown, or as the document for programs.
    pub fn page(&self, page: &Page, document: impl FnOnce() -> Value) {
        match self.format {
            Format::Json => self.data(&format!("{}\n", json::document(document()))),
            Format::Table => self.data(&page.terminal()),
            Format::Markdown => self.data(&page.markdown()),
        }
    }

    /// Prints a page in place of what stood on the screen. Where there is no screen, the writer strips that.
    pub fn screen(&self, page: &Page, document: impl FnOnce() -> Value) {
        match self.format {
            Format::Table => self.data(&format!("{CLEAR}{}", page.terminal())),
            Format::Json | Format::Markdown => self.page(page, document),
        }
    }

    /// Prints data as it is. A reader that has gone away is no error.
    pub fn data(&self, text: &str) {
        let mut out = AutoStream::new(std::io::stdout(), self.color);
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    /// Says something to the person, unless they want quiet.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let mut err = AutoStream::new(std::io::stderr(), self.color);
            drop(writeln!(err, "{text}"));
        }
    }

    /// Tells the forge's runner something, in a line of its own; also when the person wants quiet.
    pub fn command(&self, line: &str) {
        let mut err = AutoStream::new(std::io::stderr(), ColorChoice::Never);
        drop(writeln!(err, "{line}"));
    }

    /// Prints an error with its causes and hints; for programs a document on standard output as well.
    pub fn error(&self, error: &KlError) {
        self.error_text(error);
        if self.json() {
            let document = json!({
                "error": { "message": error.chain(), "exit": error.exit().code(), "hints": error.hints() },
            });
            self.data(&format!("{}\n", json::document(document)));
        }
    }

    /// Prints an error with its causes and hints on standard error only.
    pub fn error_text(&self, error: &KlError) {
        let mut err = AutoStream::new(std::io::stderr(), self.color);
        drop(writeln!(err, "{} {}", loud("error:"), lines(&error.chain())));
        for hint in error.hints() {
            drop(writeln!(err, "{} {}", dim("hint:"), lines(hint)));
        }
    }

    /// The sink for the pipeline's events: live lines for a person at a terminal, plain lines for a log.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn Sink> {
        if let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size_of(std::io::stderr())
            && !self.quiet
        {
            let sink = Arc::new(LiveSink::new(AutoStream::new(std::io::stderr(), self.color), width.into()));
            let ticking = Arc::downgrade(&sink);
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(std::time::Duration::from_secs(1));
                    match ticking.upgrade() {
                        Some(sink) => sink.tick(),
                        None => return,
                    }
                }
            });
            return sink;
        }
        Arc::new(TerminalSink::new(AutoStream::new(std::io::stderr(), self.color), self.quiet))
    }

    /// Puts a question on the terminal.
    pub fn ask(&self, question: &str) {
        let mut err = AutoStream::new(std::io::stderr(), self.color);
        drop(write!(err, "{question} ").and_then(|()| err.flush()));
    }

    /// Whether a person sits at the terminal.
    #[must_use]
    pub fn interactive() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}
