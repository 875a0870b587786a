//! The file of an embedded database, which must stay where it is while somebody works with it.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::StoreError;

/// The file that was opened. One that was removed or replaced since still takes everything, and nobody would ever read it.
#[derive(Debug, Clone)]
pub(in crate::store) struct Home(Arc<(Utf8PathBuf, u64, u64)>);

impl Home {
    /// The file at a path, as it is now; none where there is none.
    pub(in crate::store) fn at(path: &Utf8Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        let path = camino::absolute_utf8(path).unwrap_or_else(|_| path.to_owned());
        Some(Self(Arc::new((path, found.dev(), found.ino()))))
    }

    /// Refuses to go on when it is no longer there. Nothing is opened: see `sqlite/open.rs`.
    pub(in crate::store) fn still_there(&self) -> Result<(), StoreError> {
        let (path, device, file) = &*self.0;
        match path.metadata() {
            Ok(found) if (found.dev(), found.ino()) == (*device, *file) => Ok(()),
            _ => Err(StoreError::Moved { path: path.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_there_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().join("kl.db")).unwrap();
        assert!(Home::at(&path).is_none());
        std::fs::write(&path, "one").unwrap();
        let home = Home::at(&path).unwrap();
        std::fs::write(&path, "changed").unwrap();
        home.still_there().unwrap();
        std::fs::rename(&path, path.with_extension("old")).unwrap();
        home.still_there().unwrap_err();
        std::fs::write(&path, "another").unwrap();
        assert!(home.still_there().unwrap_err().to_string().contains("kl.db was removed or replaced"));
    }
}
