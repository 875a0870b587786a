//! Files and streams from outside, read up to a limit: what has no end must not fill the memory.

use std::fs::File;
use std::io::{self, Read};

use camino::Utf8Path;

/// The longest plan spec, in bytes. One for 10,000 changes has about ten megabytes.
pub const MAX_SPEC: u64 = 256 << 20;

/// The longest text of any other kind: a kl.yaml, which has a limit of its own, or a list of changed files.
pub const MAX_TEXT: u64 = 64 << 20;

/// The longest state document, in bytes. Terraform needs many times as much memory for one.
pub const MAX_STATE: u64 = 1 << 30;

/// Reads everything.
///
/// # Errors
/// When it cannot be read, or has more bytes than the limit.
pub fn whole(from: &mut dyn Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
        return Ok(bytes);
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")))
}

/// Reads a file.
///
/// # Errors
/// As [`whole`].
pub fn file(path: &Utf8Path, limit: u64) -> io::Result<Vec<u8>> {
    whole(&mut File::open(path)?, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_limit_is_not_read_to_its_end() {
        assert_eq!(whole(&mut &b"abc"[..], 3).unwrap(), b"abc");
        assert_eq!(whole(&mut &b"abcd"[..], 3).unwrap_err().to_string(), "it has more than 3 bytes");
        assert_eq!(whole(&mut io::repeat(0), 1_000).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(file(Utf8Path::new("/dev/zero"), 1_000).is_err());
    }
}
