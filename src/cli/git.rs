//! What git knows of a checkout: which files changed since a commit.

use std::process::Stdio;

use camino::Utf8Path;
use tokio::process::Command;

use super::env::EnvSnapshot;
use crate::config::affected::Change;
use crate::error::KlError;

/// The files that changed between the point where the checkout left `base`, and the checkout's commit.
pub(super) async fn changes(root: &Utf8Path, base: &str, env: &EnvSnapshot) -> Result<Vec<Change>, KlError> {
    if base.is_empty() || base.starts_with('-') || base.contains("..") {
        return Err(KlError::usage(format!("{base:?} is no branch and no commit")));
    }
    let range = format!("{base}...HEAD");
    let output = git(root, &["diff", "--name-status", "-z", "-M", "--no-ext-diff", &range, "--"], env).await?;
    parse(&output).ok_or_else(|| KlError::failed("git printed a list of changes that kl cannot read"))
}

/// The address of the remote `origin`, when there is one. It may hold a password: it is not to be shown.
pub(super) async fn remote(root: &Utf8Path, env: &EnvSnapshot) -> Option<String> {
    line(git(root, &["config", "--get", "remote.origin.url"], env).await)
}

/// The remote's default branch, else the branch that is checked out.
pub(super) async fn default_branch(root: &Utf8Path, env: &EnvSnapshot) -> Option<String> {
    let remote = line(git(root, &["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"], env).await);
    match remote.as_deref().and_then(|branch| branch.strip_prefix("origin/")) {
        Some(branch) => Some(branch.to_owned()),
        None => line(git(root, &["symbolic-ref", "--quiet", "--short", "HEAD"], env).await),
    }
}

/// The commit that is checked out.
pub(super) async fn head(root: &Utf8Path, env: &EnvSnapshot) -> Option<String> {
    line(git(root, &["rev-parse", "--verify", "HEAD"], env).await)
}

/// The only line of an answer. A repository that cannot answer has nothing to say.
fn line(output: Result<Vec<u8>, KlError>) -> Option<String> {
    let text = String::from_utf8(output.ok()?).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

async fn git(root: &Utf8Path, args: &[&str], env: &EnvSnapshot) -> Result<Vec<u8>, KlError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "git only reads here, and is of no use to anybody after kl has ended"
    )]
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(root)
        .args(args)
        .env_clear()
        .envs(env.all())
        .envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.map_err(|error| KlError::usage("git cannot be started").because(error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(500).collect();
    let error = KlError::usage(format!("git cannot tell what changed: `git {}` failed", args.join(" "))).because(said);
    Err(error.hint("in CI, fetch the history: `fetch-depth: 0` on GitHub, `GIT_DEPTH: 0` on GitLab"))
}

/// Reads `git diff --name-status -z`: a status, a path, and for renames and copies a second path, each ended by NUL.
fn parse(output: &[u8]) -> Option<Vec<Change>> {
    let mut fields = output.split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned());
    let mut changes = Vec::new();
    while let Some(status) = fields.next().filter(|status| !status.is_empty()) {
        let first = fields.next()?;
        changes.push(match status.as_bytes()[0] {
            b'R' => Change { path: fields.next()?, previous: Some(first) },
            // The source of a copy is still there, and as it was.
            b'C' => Change { path: fields.next()?, previous: None },
            _ => Change { path: first, previous: None },
        });
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_with_both_sides_of_a_rename() {
        let text = b"M\0a.tf\0R100\0old/b.tf\0new/b.tf\0D\0c \"d\"\n.tf\0C75\0x\0y\0";
        let found: Vec<_> = parse(text).unwrap().into_iter().map(|change| (change.path, change.previous)).collect();
        assert_eq!(
            found,
            [
                ("a.tf".to_owned(), None),
                ("new/b.tf".to_owned(), Some("old/b.tf".to_owned())),
                ("c \"d\"\n.tf".to_owned(), None),
                ("y".to_owned(), None),
            ]
        );
        assert_eq!(parse(b""), Some(Vec::new()));
        assert_eq!(parse(b"M\0"), Some(vec![Change { path: String::new(), previous: None }]));
        assert_eq!(parse(b"R100\0a"), None);
    }
}
