//! What the token can do, for `kl doctor`: found out by reading only.

use serde_json::Value;

use super::Github;
use crate::forge::Access;
use crate::forge::error::ForgeError;
use crate::forge::talk::Talk as _;

impl Github {
    pub(super) async fn probe(&self) -> Vec<Access> {
        let repository = self.can_read(&self.api.path("")).await;
        let pulls = self.can_read(&self.api.path("/pulls?state=open&per_page=1")).await;
        vec![
            Access {
                what: "read the repository",
                granted: repository.0,
                fix: "give the job `permissions: contents: read`, or the token access to this repository",
            },
            Access {
                what: "read pull requests",
                granted: pulls.0,
                fix: "give the job `permissions: pull-requests: write`",
            },
            Access {
                what: "write comments",
                granted: repository.1,
                fix: "give the job `permissions: pull-requests: write`; a pull request from a fork never has it",
            },
            Access {
                what: "write checks",
                // A personal token never may, whatever its scopes are; a job's token does not say what it may.
                granted: repository.1.map(|_| false),
                fix: "give the job `permissions: checks: write`, and let kl use the job's own token; \
                      without it kl sets commit statuses",
            },
            Access {
                what: "set commit statuses",
                granted: repository.1,
                fix: "give the job `permissions: statuses: write`; it matters only where checks cannot be written",
            },
        ]
    }

    /// Whether this can be read, and whether the token may write: a personal token says its scopes, others do not.
    async fn can_read(&self, path: &str) -> (Option<bool>, Option<bool>) {
        let mut budget = self.api.patience.begin();
        match self.api.answer("look what the token may do", &mut budget, path).await {
            Ok(answer) => {
                let private = answer
                    .content::<Value>("look what the token may do")
                    .is_ok_and(|it| it["private"] == Value::Bool(true));
                let writes = answer.header("x-oauth-scopes").map(|scopes| {
                    scopes
                        .split(',')
                        .map(str::trim)
                        .any(|scope| scope == "repo" || (scope == "public_repo" && !private))
                });
                (Some(true), writes)
            }
            Err(ForgeError::Denied { .. } | ForgeError::NotFound { .. }) => (Some(false), None),
            Err(_) => (None, None),
        }
    }
}
