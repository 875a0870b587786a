//! Globs over paths of files, as in `when_changed`.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// The longest glob, in bytes: the file comes from a pull request.
const MAX_LENGTH: usize = 1_000;

/// A list of globs. `*` stops at a `/`, `**` does not; a glob that begins with `!` takes files out.
#[derive(Debug, Clone)]
pub struct Globs {
    plus: GlobSet,
    minus: GlobSet,
}

impl Globs {
    /// Takes globs from kl.yaml, where they were checked; one that cannot be used matches nothing.
    #[must_use]
    pub fn of(globs: &[String]) -> Self {
        let set = |negated: bool| {
            let mut set = GlobSetBuilder::new();
            for glob in globs.iter().filter(|glob| glob.starts_with('!') == negated) {
                if let Ok(glob) = build(glob) {
                    set.add(glob);
                }
            }
            set.build().unwrap_or_default()
        };
        Self { plus: set(false), minus: set(true) }
    }

    /// Whether a glob can be used.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn check(glob: &str) -> Result<(), String> {
        if glob.len() > MAX_LENGTH {
            return Err(format!("a glob has at most {MAX_LENGTH} bytes"));
        }
        if glob.trim_start_matches('!').is_empty() {
            return Err("a glob is not empty".to_owned());
        }
        if glob.starts_with('/') {
            return Err(format!("the glob `{glob}` matches nothing: globs are relative to kl.yaml"));
        }
        build(glob).map(|_| ()).map_err(|error| format!("the glob `{glob}` cannot be used: {}", error.kind()))
    }

    /// Whether a file is one that the globs name.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.plus.is_match(path) && !self.excludes(path)
    }

    /// Whether a file is one that a glob with `!` names.
    #[must_use]
    pub fn excludes(&self, path: &str) -> bool {
        self.minus.is_match(path)
    }
}

fn build(glob: &str) -> Result<globset::Glob, globset::Error> {
    let glob = glob.strip_prefix('!').unwrap_or(glob);
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(list: &[&str]) -> Globs {
        Globs::of(&list.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        let found = globs(&["policies/*.json", "./shared/**", "*.{yml,yaml}"]);
        for path in ["policies/a.json", "shared/x", "shared/x/y.tf", "a.yml"] {
            assert!(found.matches(path), "{path}");
        }
        for path in ["policies/x/a.json", "shared", "other/shared/x", "x/a.yml", ""] {
            assert!(!found.matches(path), "{path}");
        }
    }

    #[test]
    fn a_glob_with_an_exclamation_mark_takes_files_out() {
        let found = globs(&["shared/**", "!**/*.md"]);
        assert!(found.matches("shared/a.tf") && !found.matches("shared/README.md"));
        assert!(found.excludes("README.md") && !found.excludes("a.tf"));
    }

    #[test]
    fn what_cannot_match_is_refused() {
        for wrong in ["[", "", "!", "/etc/passwd", "{a", &"x".repeat(2_000)] {
            assert!(Globs::check(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Globs::check("!docs/**"), Ok(()));
    }
}
