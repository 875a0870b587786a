//! What the token can do, for `kl doctor`: found out by reading only.

use serde_json::Value;

use super::Gitlab;
use super::api::TokenKind;
use crate::forge::Access;
use crate::forge::error::ForgeError;
use crate::forge::talk::Talk as _;

impl Gitlab {
    pub(super) async fn probe(&self) -> Vec<Access> {
        let requests = self.can_read(&self.api.path("/merge_requests?state=opened&per_page=1")).await;
        let own = match self.api.token {
            TokenKind::Access => self.can_read("/user").await,
            TokenKind::Job => self.can_read("/job").await,
            TokenKind::None => Some(false),
        };
        // Of an access token, only trying would tell; a job's own token may not write, and none is none.
        let writes = if self.api.token == TokenKind::Access && own != Some(false) { None } else { Some(false) };
        vec![
            Access {
                what: "use the token",
                granted: own,
                fix: "give kl a project access token that has not expired, as a masked variable",
            },
            Access {
                what: "read merge requests",
                granted: requests,
                fix: "give the token the scope `api` or `read_api`, and its user at least the role Reporter",
            },
            Access {
                what: "write notes",
                granted: writes,
                fix: "give kl a project access token with the scope `api`; a job's own token cannot write notes",
            },
            Access {
                what: "set commit statuses",
                granted: writes,
                fix: "give kl a project access token with the scope `api` and the role Developer; \
                      without it the job's own result has to do",
            },
        ]
    }

    async fn can_read(&self, path: &str) -> Option<bool> {
        let mut budget = self.api.patience.begin();
        match self.api.get::<Value>("look what the token may do", &mut budget, path).await {
            Ok(_) => Some(true),
            Err(ForgeError::Denied { .. } | ForgeError::NotFound { .. }) => Some(false),
            Err(_) => None,
        }
    }
}
