//! Where a page is read: the forge, its addresses, and how times, requests and files look there.

use chrono::{DateTime, Utc};

use crate::domain::id::RunId;
use crate::domain::request::{ForgeKind, RequestRef};
use crate::domain::run::Origin;
use crate::report::conflict;
use crate::report::markdown::Inline;

/// Where a page is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The forge; none outside of one.
    pub forge: Option<ForgeKind>,
    /// The page of the forge's own server, as `https://github.com`.
    pub server_url: Option<String>,
    /// `owner/name`.
    pub repository: Option<String>,
    /// The commit that files are shown at.
    pub head: Option<String>,
}

impl Place {
    fn base(&self, repository: &str) -> Option<(ForgeKind, String)> {
        let server = self.server_url.as_deref()?.trim_end_matches('/');
        Some((self.forge?, format!("{server}/{repository}")))
    }

    /// Whether a request is of the forge that this is read on. A database may know repositories of several.
    fn is_of(&self, request: &RequestRef) -> bool {
        self.forge.is_none_or(|forge| forge == request.forge)
    }

    /// A request as its readers know it: short in its own repository, a link where a link is wanted.
    #[must_use]
    pub fn request(&self, request: &RequestRef, linked: bool) -> Inline {
        let here = self.is_of(request) && self.repository.as_deref() == Some(request.repository.as_str());
        let name = Inline::text(&if here { request.short() } else { request.to_string() });
        match self.request_url(request).filter(|_| linked) {
            Some(url) => name.link(&url),
            None => name,
        }
    }

    /// The page of a request, where its forge's own server is known.
    #[must_use]
    pub fn request_url(&self, request: &RequestRef) -> Option<String> {
        let (forge, base) = self.base(&request.repository).filter(|_| self.is_of(request))?;
        Some(match forge {
            ForgeKind::Github => format!("{base}/pull/{}", request.number),
            ForgeKind::Gitlab => format!("{base}/-/merge_requests/{}", request.number),
        })
    }

    /// The request that a run came from.
    #[must_use]
    pub fn origin(&self, origin: &Origin) -> Option<Inline> {
        let forge = origin.forge.as_deref().and_then(ForgeKind::from_word);
        match (forge, origin.repository.clone(), origin.request) {
            (Some(forge), Some(repository), Some(number)) => {
                Some(self.request(&RequestRef { forge, repository, number }, true))
            }
            _ => conflict::request(origin).map(|text| Inline::text(&text)),
        }
    }

    /// A place in a file, as `FILE:LINE`.
    #[must_use]
    pub fn file(&self, place: &str) -> Inline {
        let name = Inline::code(place);
        let (Some((file, line)), Some(repository), Some(head)) =
            (split_place(place), self.repository.as_deref(), self.head.as_deref())
        else {
            return name;
        };
        // `#` and `?` are letters of a file's name here.
        let file = file.replace('%', "%25").replace('#', "%23").replace('?', "%3F");
        match self.base(repository) {
            Some((ForgeKind::Github, base)) => name.link(&format!("{base}/blob/{head}/{file}#L{line}")),
            Some((ForgeKind::Gitlab, base)) => name.link(&format!("{base}/-/blob/{head}/{file}#L{line}")),
            None => name,
        }
    }
}

/// `FILE:LINE` in its parts.
#[must_use]
pub fn split_place(place: &str) -> Option<(&str, u32)> {
    let (file, line) = place.rsplit_once(':')?;
    let line: u32 = line.parse().ok()?;
    (!file.is_empty() && line > 0).then_some((file, line))
}

/// A time to the minute.
#[must_use]
pub fn time(at: DateTime<Utc>) -> Inline {
    Inline::text(&at.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// A time of the day, for things of the same day.
#[must_use]
pub fn clock(at: DateTime<Utc>) -> Inline {
    Inline::text(&at.format("%H:%M:%S").to_string())
}

/// The beginning of a commit's id.
#[must_use]
pub fn commit(head: &str) -> Inline {
    Inline::code(&head.chars().take(8).collect::<String>())
}

/// A run's id.
#[must_use]
pub fn run(id: RunId) -> Inline {
    Inline::code(&id.to_string())
}

/// The job's page, when it is known.
#[must_use]
pub fn job(url: Option<&str>) -> Option<Inline> {
    url.map(|url| Inline::own("job").link(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_another_forge_is_no_page_of_this_one() {
        let place = Place {
            forge: Some(ForgeKind::Github),
            server_url: Some("https://github.com/".to_owned()),
            repository: Some("group/live".to_owned()),
            head: None,
        };
        let of = |forge, repository: &str| RequestRef { forge, repository: repository.to_owned(), number: 7 };
        let ours = of(ForgeKind::Github, "group/live");
        assert_eq!(place.request(&ours, true), Inline::text("#7").link("https://github.com/group/live/pull/7"));
        let theirs = of(ForgeKind::Gitlab, "group/live");
        assert_eq!(place.request_url(&theirs), None);
        // Neither a link nor short: the name of the repository may be the same.
        assert_eq!(place.request(&theirs, true), Inline::text("group/live!7"));
        let run = Origin {
            forge: Some("gitlab".to_owned()),
            repository: Some("group/live".to_owned()),
            request: Some(7),
            ..Origin::default()
        };
        assert_eq!(place.origin(&run), Some(Inline::text("group/live!7")));
    }
}
