//! Reading a repository's configuration files from disk, for [`super::discover`].

use std::fs::{self, File};
use std::io::{self, Read as _};

use camino::{Utf8Path, Utf8PathBuf};

use super::discover::{Listing, inside};
use crate::domain::graph::configuration::is_configuration;

/// The largest configuration file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// A folder that is large and of no configuration.
const LEFT_OUT: &str = "node_modules";

/// Lists the configuration files and the symbolic links of a repository. Hidden directories are left out, and so is what
/// cannot be read: Terraform will complain about it.
///
/// # Errors
/// When the directory itself cannot be listed.
pub fn listing(root: &Utf8Path) -> io::Result<Listing> {
    let mut found = Listing::default();
    let mut queue = vec![Utf8PathBuf::new()];
    root.read_dir_utf8()?;
    while let Some(dir) = queue.pop() {
        let Ok(entries) = root.join(&dir).read_dir_utf8() else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            let path = dir.join(name);
            if kind.is_dir() {
                let cache = entry.path().join("CACHEDIR.TAG").exists();
                if !name.starts_with('.') && name != LEFT_OUT && !cache {
                    queue.push(path);
                }
                continue;
            }
            if kind.is_symlink()
                && let Ok(target) = entry.path().read_link_utf8()
                && let Some(target) = inside(&dir.join(target))
            {
                found.links.insert(path.clone(), target);
            }
            if is_configuration(name)
                && let Some(text) = text(entry.path())
            {
                found.files.insert(path, text);
            }
        }
    }
    Ok(found)
}

/// The text of a file that is not too large.
fn text(path: &Utf8Path) -> Option<String> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_BYTES);
    let mut text = String::new();
    if is_file {
        File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::discover::Modules;

    #[test]
    fn configuration_is_found_and_what_is_hidden_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(temp.path()).unwrap();
        for path in
            ["web/main.tf", "web/.terraform/modules/x/main.tf", ".hidden/main.tf", "node_modules/y/main.tf", "doc/a.md"]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
        }
        std::os::unix::fs::symlink("../doc/a.md", root.join("web/a.md")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("web/etc")).unwrap();
        let found = listing(root).unwrap();
        assert_eq!(found.files.keys().collect::<Vec<_>>(), ["web/main.tf"]);
        assert_eq!(found.links.into_iter().collect::<Vec<_>>(), [("web/a.md".into(), Utf8PathBuf::from("doc/a.md"))]);
        assert_eq!(Modules::read(&listing(root).unwrap()).roots(), ["web"]);
    }
}
