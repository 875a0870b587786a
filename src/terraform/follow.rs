//! The output of an apply by way of files: written by Terraform, read while it is written.
//!
//! A pipe dies with kl, and Terraform dies of a dead pipe, in the midst of an object. A file does not. The file of standard
//! output is locked through the very handle that Terraform writes to, so it stays locked for as long as Terraform
//! lives, whatever becomes of kl: [`applies_in`] sees that without any process number.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use camino::Utf8Path;
use tokio::io::AsyncReadExt as _;
use tokio::select;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Standard output: the lines of `-json`.
pub(super) const STDOUT: &str = "apply.jsonl";
/// Standard error.
const STDERR: &str = "apply.stderr";

/// How often it is looked whether a file has grown.
const PAUSE: Duration = Duration::from_millis(25);

/// A file of standard error that was read up to its end is emptied when it has grown beyond this: `TF_LOG=trace` must not
/// fill the disk.
const EMPTIED_FROM: u64 = 8 * 1024 * 1024;

/// Files that a process is about to write to.
pub(super) struct OutputFiles {
    stdout: Pair,
    stderr: Pair,
}

/// The two ends of a file.
struct Pair {
    write: File,
    read: File,
}

/// The ends to read from.
pub(super) struct Readers {
    pub(super) stdout: File,
    pub(super) stderr: File,
}

impl OutputFiles {
    /// Makes them, for their owner alone, and locks the first.
    pub(super) fn create(dir: &Utf8Path) -> io::Result<Self> {
        let files = Self { stdout: Pair::create(&dir.join(STDOUT))?, stderr: Pair::create(&dir.join(STDERR))? };
        match files.stdout.write.try_lock() {
            Ok(()) => {}
            // Without locks there is still the process group.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
        Ok(files)
    }

    /// The ends that a process is started with.
    pub(super) fn streams(&self) -> io::Result<(Stdio, Stdio)> {
        Ok((self.stdout.write.try_clone()?.into(), self.stderr.write.try_clone()?.into()))
    }

    /// Gives up the ends to write to: from now on only the process has them, and with them the lock.
    pub(super) fn into_readers(self) -> Readers {
        Readers { stdout: self.stdout.read, stderr: self.stderr.read }
    }
}

impl Pair {
    fn create(path: &Utf8Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let write = options.append(true).create(true).mode(0o600).open(path)?;
        write.set_len(0)?;
        // Also for writing: that is what emptying needs.
        let read = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { write, read })
    }
}

/// Whether a Terraform applies, as the lock on its output tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// It lives.
    Still,
    /// It has ended.
    NoLonger,
    /// No apply was started there, or there are no locks on this file system.
    Unknown,
}

/// Whether the Terraform that has this directory for its output lives.
///
/// # Errors
/// When the file cannot be opened or locked, for another reason than that it is not there.
pub fn applies_in(output_dir: &Utf8Path) -> io::Result<Applies> {
    let file = match File::open(output_dir.join(STDOUT)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Applies::Unknown),
        Err(error) => return Err(error),
    };
    // Shared, so that two who look do not see each other.
    match file.try_lock_shared() {
        Ok(()) => Ok(Applies::NoLonger),
        Err(TryLockError::WouldBlock) => Ok(Applies::Still),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(Applies::Unknown),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Hands over what is written to a file, until its writer has ended and everything is read.
pub(super) async fn whole(file: File, ended: &CancellationToken, each: impl FnMut(&[u8])) {
    follow(file, ended, None, each).await;
}

/// The same, and empties the file now and then. What is written in the instant of that is lost.
pub(super) async fn bounded(file: File, ended: &CancellationToken, each: impl FnMut(&[u8])) {
    follow(file, ended, Some(EMPTIED_FROM), each).await;
}

async fn follow(file: File, ended: &CancellationToken, limit: Option<u64>, mut each: impl FnMut(&[u8])) {
    let mut file = tokio::fs::File::from_std(file);
    let mut chunk = vec![0; 64 * 1024];
    let mut behind = 0;
    loop {
        // Asked before reading: what was written before the end is read after it.
        let last = ended.is_cancelled();
        match file.read(&mut chunk).await {
            Ok(0) if last => return,
            Ok(0) => {
                if limit.is_some_and(|limit| behind > limit) {
                    file = emptied(file.into_std().await);
                    behind = 0;
                }
                select! {
                    () = sleep(PAUSE) => {}
                    () = ended.cancelled() => {}
                }
            }
            Ok(length) => {
                behind += length as u64;
                each(&chunk[..length]);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read Terraform's output");
                return;
            }
        }
    }
}

/// Drops what stands in a file that is written to at its end.
fn emptied(mut file: File) -> tokio::fs::File {
    if let Err(error) = file.set_len(0).and_then(|()| file.rewind()) {
        tracing::warn!(%error, "cannot empty the file with Terraform's standard error");
    }
    tokio::fs::File::from_std(file)
}

/// Makes lines of chunks.
#[derive(Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes a chunk, and hands over the lines that it completes.
    pub(super) fn push(&mut self, chunk: &[u8], each: &mut dyn FnMut(&str)) {
        let mut parts = chunk.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.rest.extend_from_slice(part);
            if parts.peek().is_some() || part.ends_with(b"\n") {
                self.finish(each);
            }
        }
    }

    /// Hands over the last line, when it does not end like one.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.rest.is_empty() {
            each(String::from_utf8_lossy(&self.rest).trim_end());
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use camino::Utf8PathBuf;

    use super::*;

    fn dir(temp: &tempfile::TempDir) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(temp.path().to_owned()).unwrap()
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_end() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for chunk in ["a\nb", "", "c\n\nd", "\u{e9}\r\n", "end"] {
            lines.push(chunk.as_bytes(), &mut |line| seen.push(line.to_owned()));
        }
        lines.finish(&mut |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["a", "bc", "", "d\u{e9}", "end"]);
    }

    #[tokio::test]
    async fn what_is_written_last_is_read_too() {
        let temp = tempfile::tempdir().unwrap();
        let files = OutputFiles::create(&dir(&temp)).unwrap();
        let mut write = files.stdout.write.try_clone().unwrap();
        let (ended, mut seen) = (CancellationToken::new(), Vec::new());
        let readers = files.into_readers();
        let writer = {
            let ended = ended.clone();
            async move {
                for number in 0..100_000 {
                    write.write_all(format!("{number}\n").as_bytes()).unwrap();
                    if number % 1000 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                ended.cancel();
            }
        };
        tokio::join!(writer, whole(readers.stdout, &ended, |chunk| seen.extend_from_slice(chunk)));
        assert!(seen.ends_with(b"\n99999\n"));
        assert_eq!(String::from_utf8(seen).unwrap().lines().count(), 100_000);
    }

    #[tokio::test]
    async fn standard_error_does_not_fill_the_disk() {
        let temp = tempfile::tempdir().unwrap();
        let files = OutputFiles::create(&dir(&temp)).unwrap();
        let path = dir(&temp).join(STDERR);
        let mut write = files.stderr.write.try_clone().unwrap();
        let ended = CancellationToken::new();
        let readers = files.into_readers();
        let writer = {
            let (ended, path) = (ended.clone(), path.clone());
            async move {
                let block = vec![b'x'; 1024 * 1024];
                for _ in 0..=(EMPTIED_FROM / block.len() as u64) {
                    write.write_all(&block).unwrap();
                }
                while std::fs::metadata(&path).unwrap().len() > 0 {
                    sleep(Duration::from_millis(5)).await;
                }
                write.write_all(b"the end").unwrap();
                ended.cancel();
            }
        };
        let mut tail = Vec::new();
        tokio::join!(writer, bounded(readers.stderr, &ended, |chunk| tail = chunk.to_vec()));
        assert_eq!(tail, b"the end");
        assert_eq!(std::fs::read(&path).unwrap(), b"the end");
    }

    #[test]
    fn the_lock_lives_as_long_as_the_end_that_a_process_has() {
        let temp = tempfile::tempdir().unwrap();
        let dir = dir(&temp);
        assert_eq!(applies_in(&dir).unwrap(), Applies::Unknown);
        let files = OutputFiles::create(&dir).unwrap();
        let end = files.stdout.write.try_clone().unwrap();
        drop(files.into_readers());
        assert_eq!(applies_in(&dir).unwrap(), Applies::Still);
        drop(end);
        assert_eq!(applies_in(&dir).unwrap(), Applies::NoLonger);
    }
}
