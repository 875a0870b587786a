//! `kl token create`, `kl token list` and `kl token revoke`: who may use the HTTP backend.

use camino::Utf8Path;
use serde_json::{Value, json};

use super::Session;
use super::args::serve::{TokenCreateArgs, TokenRevokeArgs};
use super::project::{self, Place};
use crate::clock;
use crate::domain::token::{Token, TokenId};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::cells;
use crate::report::page::Page;
use crate::report::phrase::Phrase;
use crate::report::story::Tone;
use crate::report::style::plain;
use crate::store::Store;
use crate::store::model::{NewToken, StoredToken, TokenMade, TokenStanding};

/// A token that nobody can guess.
pub(super) fn new_token() -> Result<Token, KlError> {
    let random = |error| KlError::failed("the system gives no random bytes").because(error);
    Ok(Token::of(clock::random().map_err(random)?, clock::random().map_err(random)?))
}

/// `kl token create`.
pub async fn create(session: &Session, args: TokenCreateArgs) -> Result<Exit, KlError> {
    let store = session.store(&Place::find(Utf8Path::new("."))?).await?;
    let token = new_token()?;
    let new = NewToken {
        id: token.id().clone(),
        name: args.name,
        role: args.role.into(),
        states: args.states,
        hash: token.hash(),
        lifetime: args.expires_in,
        by: project::identity(&args.actor, &session.env).0,
    };
    let made = match store.token_insert(&new).await? {
        TokenMade::Made(made) => made,
        TokenMade::NameTaken(by) => {
            return Err(KlError::usage(format!("there is a token {:?} already: {by}", new.name.as_str()))
                .hint(format!("choose another name, or revoke that one first: kl token revoke {by}")));
        }
    };
    let until = made
        .expires_at
        .map_or_else(|| "until it is revoked".to_owned(), |end| format!("until {}", cells::time(end).terminal()));
    session.out.say(&format!(
        "The token {} ({}) opens states like {:?} to {}, {until}. It is shown this once and kept nowhere:",
        plain(made.name.as_str()),
        made.id,
        made.states.as_str(),
        made.role,
    ));
    session.out.result(&format!("{}\n", token.expose()), || {
        let mut document = document(&made);
        document["token"] = token.expose().into();
        document
    });
    Ok(Exit::Done)
}

/// `kl token list`.
pub async fn list(session: &Session) -> Result<Exit, KlError> {
    let tokens = session.store_here().await?.token_list().await?;
    let mut page = Page::default();
    if tokens.is_empty() {
        page.note(Phrase::own("No token."));
    } else {
        let head =
            ["Id", "Name", "Role", "States", "Standing", "Made", "By", "Expires", "Last used", "Revoked", "By whom"];
        page.grid(&head, &tokens.iter().map(row).collect::<Vec<_>>());
    }
    session.out.page(&page, || json!({ "tokens": tokens.iter().map(document).collect::<Vec<_>>() }));
    Ok(Exit::Done)
}

fn row(token: &StoredToken) -> Vec<Phrase> {
    let standing = token.standing();
    let tone = match standing {
        TokenStanding::Valid => Tone::Good,
        TokenStanding::Expired | TokenStanding::Revoked => Tone::Quiet,
    };
    let time = |at| Option::map_or(at, Phrase::default(), cells::time);
    vec![
        Phrase::name_of(token.id.as_str()),
        Phrase::own(token.name.as_str()),
        Phrase::own(token.role.word()),
        Phrase::name_of(token.states.as_str()),
        Phrase::toned(tone, standing.word()),
        cells::time(token.created_at),
        Phrase::own(token.created_by.0.clone()),
        time(token.expires_at),
        time(token.last_used_at),
        time(token.revoked_at),
        token.revoked_by.as_ref().map(|by| Phrase::own(by.0.clone())).unwrap_or_default(),
    ]
}

/// `kl token revoke`.
pub async fn revoke(session: &Session, args: TokenRevokeArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let id = find(store.as_ref(), &args.token).await?;
    let by = project::identity(&args.actor, &session.env).0;
    let token = store.token_revoke(&id, &by).await?;
    session.out.result(
        &format!("The token {} ({id}) is revoked: it opens nothing any more.\n", plain(token.name.as_str())),
        || document(&token),
    );
    Ok(Exit::Done)
}

/// The token that a person means. Names of revoked ones may have been given again, so they count last. The text is not
/// repeated: it may be a token, cut short.
async fn find(store: &dyn Store, text: &str) -> Result<TokenId, KlError> {
    let tokens = store.token_list().await?;
    let named = |token: &&StoredToken| token.name.as_str() == text;
    let valid = tokens.iter().filter(named).min_by_key(|token| token.revoked_at.is_some());
    let by_id = || text.parse::<TokenId>().ok().filter(|id| tokens.iter().any(|token| token.id == *id));
    valid.map(|token| token.id.clone()).or_else(by_id).ok_or_else(|| {
        KlError::usage("there is no token of this name or id").hint("`kl token list` shows names and ids")
    })
}

fn document(token: &StoredToken) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "states": token.states,
        "standing": token.standing().word(),
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
        "revoked_by": token.revoked_by,
    })
}
