//! `kl.yaml`: which directories are projects, which state each has, and the policies of the repository.

use std::collections::BTreeSet;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use crate::domain::id::StateName;

/// The name of the file, at the root of a repository.
pub const FILE_NAME: &str = "kl.yaml";

/// The largest file that is read: it comes from a pull request.
const MAX_BYTES: usize = 1 << 20;

/// Brackets within brackets: the YAML reader takes time by the square of their depth.
const MAX_DEPTH: usize = 64;

/// The longest message of the YAML reader that is passed on: it repeats what it does not like.
const MAX_MESSAGE: usize = 300;

/// A whole `kl.yaml`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    /// The Terraform or OpenTofu binary: a path, or a name on PATH.
    pub terraform: Option<String>,
    /// Root modules and their states.
    pub projects: Vec<Project>,
    /// What holds for all projects.
    pub policies: Policies,
}

/// A root module with a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// Its name, unique in the file.
    pub name: String,
    /// The root module, relative to the file.
    pub dir: Utf8PathBuf,
    /// The Terraform workspace.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The state; else the directory and workspace name it.
    #[serde(default)]
    pub state: Option<StateName>,
    /// Variable files, relative to the root module.
    #[serde(default)]
    pub var_files: Vec<String>,
    /// The binary for this project.
    #[serde(default)]
    pub terraform: Option<String>,
}

/// What an apply does when rows in its footprint changed since the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStale {
    /// Refuse (exit 4).
    #[default]
    Refuse,
    /// Plan again, and go on when the plan is the same or refined.
    Revalidate,
}

/// How wide the read set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClosureRule {
    /// What the write set depends on.
    #[default]
    Upstream,
    /// Everything that is connected with the write set, in either direction.
    Connected,
}

/// The policies of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policies {
    /// See [`OnStale`].
    pub on_stale: OnStale,
    /// Specs older than this are refused; as `24h`, `30m`, `7d`.
    #[serde(deserialize_with = "optional_duration")]
    pub max_plan_age: Option<Duration>,
    /// See [`ClosureRule`].
    pub closure: ClosureRule,
}

/// Why `kl.yaml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not what kl expects.
    #[error("{file}{place}: {message}")]
    Invalid {
        /// The file.
        file: Utf8PathBuf,
        /// `:LINE:COLUMN`, or nothing.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// The file is too large to be a configuration.
    #[error("{file} has {size} bytes; a kl.yaml has at most {MAX_BYTES}")]
    TooLarge {
        /// The file.
        file: Utf8PathBuf,
        /// Its size.
        size: usize,
    },
    /// Two projects that cannot be told apart.
    #[error("{file}: two projects are {what}")]
    Twice {
        /// The file.
        file: Utf8PathBuf,
        /// What they share.
        what: String,
    },
}

impl ConfigFile {
    /// Reads the text of a `kl.yaml`.
    ///
    /// # Errors
    /// When it is not YAML, has unknown keys or wrong values (with line and column), or projects that clash.
    pub fn read(file: &Utf8Path, text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_BYTES {
            return Err(ConfigError::TooLarge { file: file.to_owned(), size: text.len() });
        }
        if let Some(line) = too_deep(text) {
            return Err(ConfigError::Invalid {
                file: file.to_owned(),
                place: format!(":{line}"),
                message: format!("more than {MAX_DEPTH} brackets within each other"),
            });
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let config: Option<Self> = serde_yaml::from_str(text).map_err(|error| ConfigError::Invalid {
            file: file.to_owned(),
            place: error.location().map(|at| format!(":{}:{}", at.line(), at.column())).unwrap_or_default(),
            message: strip_location(&error.to_string()),
        })?;
        let config = config.unwrap_or_default();
        let mut names = BTreeSet::new();
        let mut places = BTreeSet::new();
        for project in &config.projects {
            if !names.insert(&project.name) {
                return Err(ConfigError::Twice { file: file.to_owned(), what: format!("called {}", project.name) });
            }
            if !places.insert((normal(&project.dir), project.workspace.clone())) {
                return Err(ConfigError::Twice {
                    file: file.to_owned(),
                    what: format!("in {} with the same workspace", project.dir),
                });
            }
        }
        Ok(config)
    }

    /// The project of a directory (relative to the file) and workspace.
    #[must_use]
    pub fn project(&self, dir: &Utf8Path, workspace: Option<&str>) -> Option<&Project> {
        let same_dir = |project: &&Project| normal(&project.dir) == normal(dir);
        let candidates: Vec<&Project> = self.projects.iter().filter(same_dir).collect();
        let exact = candidates
            .iter()
            .find(|project| project.workspace.as_deref().unwrap_or("default") == workspace.unwrap_or("default"));
        match (exact, workspace, candidates.as_slice()) {
            (Some(project), _, _) => Some(project),
            // Without a word about the workspace, a directory's only project is the one that is meant.
            (None, None, [only]) => Some(only),
            _ => None,
        }
    }
}

/// A path without `.` steps and trailing slashes.
fn normal(path: &Utf8Path) -> Utf8PathBuf {
    path.components().filter(|part| part.as_str() != ".").collect()
}

/// The line in which brackets are nested too deeply. Those in comments and quotes count as well, which does no harm:
/// they would have to be unbalanced.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (number, line) in text.lines().enumerate() {
        for letter in line.bytes() {
            match letter {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                return Some(number + 1);
            }
        }
    }
    None
}

/// The YAML reader puts the place at the end of its message; ours stands in front, as editors want it.
fn strip_location(message: &str) -> String {
    let message = message.rfind(" at line ").map_or(message, |at| &message[..at]);
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

fn optional_duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| duration(&text).map_err(serde::de::Error::custom)).transpose()
}

/// Reads `90s`, `15m`, `2h`, `7d`, or several together as `1h30m`.
///
/// # Errors
/// A sentence on what a duration looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 90s, 15m, 2h, 7d or 1h30m");
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes()[end] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return Err(wrong()),
        };
        total = count.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &rest[end + 1..];
    }
    Ok(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::read(Utf8Path::new("kl.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_what_would_be_known() {
        let message = read("policies:\n  on_stael: refuse\n").unwrap_err();
        assert!(message.starts_with("kl.yaml:2:3: "), "{message}");
        assert!(message.contains("on_stale"), "{message}");
    }

    #[test]
    fn what_is_nested_or_long_beyond_reason_is_refused_at_once() {
        let message = read(&format!("# deep\nprojects: {}", "[".repeat(1_000_000))).unwrap_err();
        assert_eq!(message, "kl.yaml:2: more than 64 brackets within each other");
        let message = read(&format!("projects: {}", "x".repeat(100_000))).unwrap_err();
        assert!(message.len() < 400 && message.ends_with('…'), "{message}");
    }

    #[test]
    fn a_project_is_found_by_directory_and_workspace() {
        let config = read(
            "projects:\n  - {name: a, dir: ./infra/web, state: web}\n  - {name: b, dir: infra/web, workspace: dev}\n",
        )
        .unwrap();
        let name = |workspace| config.project(Utf8Path::new("infra/web/"), workspace).map(|found| found.name.as_str());
        assert_eq!(name(None), Some("a"));
        assert_eq!(name(Some("dev")), Some("b"));
        assert_eq!(name(Some("prod")), None);
    }

    #[test]
    fn projects_that_cannot_be_told_apart_are_refused() {
        assert!(read("projects:\n  - {name: a, dir: x}\n  - {name: a, dir: y}\n").is_err());
        assert!(read("projects:\n  - {name: a, dir: x}\n  - {name: b, dir: ./x}\n").is_err());
    }

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        for wrong in ["", "10", "m", "5 m", "-1s", "99999999999999999999d", "1w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        let policies =
            read("policies: {max_plan_age: 24h, on_stale: revalidate, closure: connected}").unwrap().policies;
        assert_eq!(policies.max_plan_age, Some(Duration::from_hours(24)));
    }

    #[test]
    fn empty_files_and_comments_are_an_empty_configuration() {
        for text in ["", "\n", "# nothing yet\n", "---\n"] {
            assert_eq!(read(text).unwrap(), ConfigFile::default());
        }
    }
}
