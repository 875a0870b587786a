//! The comment of a request: one job renders it at a time.

use std::time::Duration;

use uuid::Uuid;

use super::fixture::Fixture;
use crate::domain::request::{ForgeKind, RequestRef};
use crate::store::model::{CommentLock, PostedComment};
use crate::store::{Store, StoreError};

const TTL: Duration = Duration::from_mins(2);

fn request() -> RequestRef {
    RequestRef { forge: ForgeKind::Gitlab, repository: "group/sub/infra".to_owned(), number: 7 }
}

fn owner() -> Uuid {
    crate::clock::new_run_id().0
}

fn comment(id: &str) -> PostedComment {
    PostedComment { id: id.to_owned(), url: Some(format!("https://git.example/{id}")), digest: format!("d{id}") }
}

async fn granted(store: &dyn Store, owner: Uuid) -> Option<PostedComment> {
    match store.comment_lock(&request(), owner, TTL).await.unwrap() {
        CommentLock::Granted { posted, until } => {
            let left = until - store.now().await.unwrap();
            assert!((100..=120).contains(&left.num_seconds()), "{left}");
            posted
        }
        busy @ CommentLock::Busy { .. } => panic!("{busy:?}"),
    }
}

async fn busy(f: &Fixture, owner: Uuid) -> bool {
    match f.store.comment_lock(&request(), owner, TTL).await.unwrap() {
        CommentLock::Busy { until, remaining } => {
            assert!(until > f.store.now().await.unwrap() && remaining <= TTL, "{until} {remaining:?}");
            true
        }
        CommentLock::Granted { .. } => false,
    }
}

/// Lets every lock that stands now end.
async fn time_passes(f: &Fixture) {
    let epoch = if f.is_sqlite() { "0" } else { "'epoch'" };
    f.sql(&format!("UPDATE comments SET locked_until = {epoch} WHERE locked_by IS NOT NULL")).await.unwrap();
}

pub(super) async fn a_comment_is_locked_before_it_exists(f: &Fixture) {
    let (alice, bob) = (owner(), owner());
    assert_eq!(f.store.comment_find(&request()).await.unwrap(), None);
    assert_eq!(granted(&*f.store, alice).await, None);
    assert_eq!(f.store.comment_find(&request()).await.unwrap(), None);
    assert!(busy(f, bob).await);
    granted(&*f.store, alice).await;
    // Another request is another comment.
    let other = RequestRef { number: 8, ..request() };
    let free = f.store.comment_lock(&other, bob, TTL).await.unwrap();
    assert!(matches!(free, CommentLock::Granted { .. }), "{free:?}");

    f.store.comment_save(&request(), alice, &comment("1")).await.unwrap();
    assert!(busy(f, bob).await, "saving does not give the lock back");
    // Only its owner gives it back, and once is enough.
    f.store.comment_unlock(&request(), bob).await.unwrap();
    assert!(busy(f, bob).await);
    for _ in 0..2 {
        f.store.comment_unlock(&request(), alice).await.unwrap();
    }
    assert_eq!(granted(&*f.store, bob).await, Some(comment("1")));
    f.store.comment_save(&request(), bob, &PostedComment { url: None, ..comment("2") }).await.unwrap();
    let found = f.store.comment_find(&request()).await.unwrap();
    assert_eq!(found, Some(PostedComment { url: None, ..comment("2") }));
}

pub(super) async fn only_who_holds_the_lock_writes_the_comment(f: &Fixture) {
    let (alice, bob) = (owner(), owner());
    let refused = async |owner| {
        let error = f.store.comment_save(&request(), owner, &comment("9")).await.unwrap_err();
        assert!(matches!(&error, StoreError::CommentLockLost { request: of } if *of == request()), "{error:?}");
    };
    refused(alice).await;
    granted(&*f.store, alice).await;
    refused(bob).await;
    // A lock that has ended counts until somebody takes it.
    time_passes(f).await;
    f.store.comment_save(&request(), alice, &comment("1")).await.unwrap();
    assert_eq!(granted(&*f.store, bob).await, Some(comment("1")));
    refused(alice).await;
    f.store.comment_unlock(&request(), alice).await.unwrap();
    f.store.comment_save(&request(), bob, &comment("2")).await.unwrap();
    f.store.comment_unlock(&request(), bob).await.unwrap();
    refused(bob).await;
    assert_eq!(f.store.comment_find(&request()).await.unwrap(), Some(comment("2")));
}
