//! What tests do with a stand-in whatever the forge: requests, pushes, faults, and the reckoning at the end.

use kl_runner::forge::Push;

use super::fault::Fault;
use super::history::{Merge, OpenRequest};
use super::server::{Behaviour, Request, Server};

/// A forge on loopback.
pub(crate) struct StandIn<B: Behaviour> {
    pub(super) server: Server<B>,
}

impl<B: Behaviour> StandIn<B> {
    pub(super) fn of(behaviour: B) -> Self {
        Self { server: Server::start(behaviour) }
    }

    /// Opens a request, and gives its number.
    pub(crate) fn open_request(&self, request: &OpenRequest) -> u64 {
        self.server.state().repository().open(request)
    }

    /// The commit at a request's head.
    pub(crate) fn head(&self, number: u64) -> String {
        self.server.state().repository().requests[&number].head.clone()
    }

    /// Where a branch is.
    pub(crate) fn tip(&self, branch: &str) -> String {
        self.server.state().repository().history.branches[branch].clone()
    }

    /// Merges a request, and gives the push that it is.
    pub(crate) fn merge(&self, number: u64, how: Merge) -> Push {
        self.server.state().merge(number, how)
    }

    /// Closes a request without a merge.
    pub(crate) fn close(&self, number: u64) {
        self.server.state().repository().requests.get_mut(&number).unwrap().open = false;
    }

    /// Pushes a commit to a branch, which is new if there was none, and gives the push.
    pub(crate) fn push(&self, branch: &str, message: &str, files: &[&str]) -> Push {
        self.server.state().repository().push(branch, message, files)
    }

    /// Sets a branch to another commit by force, and gives the push.
    pub(crate) fn force(&self, branch: &str, to: &str) -> Push {
        let before = self.server.state().repository().history.branches.insert(branch.into(), to.into());
        Push { branch: branch.into(), before, after: to.into() }
    }

    /// Merges a branch that has no request, by hand, and gives the push.
    pub(crate) fn merge_by_hand(&self, branch: &str, head: &str) -> Push {
        let mut state = self.server.state();
        let history = &mut state.repository().history;
        let before = history.branches[branch].clone();
        let after = history.merge(branch, head, Merge::Commit, "Merge by hand").tip;
        Push { branch: branch.into(), before: Some(before), after }
    }

    /// The next commits get these names.
    pub(crate) fn name_next_commits(&self, names: &[&str]) {
        self.server.state().repository().history.name_next(names);
    }

    /// As in the first moments after a merge: no commit is connected with its requests.
    pub(crate) fn forget_connections(&self) {
        self.server.state().repository().unconnected = true;
    }

    /// The next requests of this method whose path holds `part` go wrong, so many times.
    pub(crate) fn arm(&self, method: &'static str, part: &str, fault: Fault, times: usize) {
        self.server.faults().arm(method, part, fault, times);
    }

    /// Nothing goes wrong any more.
    pub(crate) fn disarm(&self) {
        self.server.faults().disarm();
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    /// Fails over anything that was asked against the description, or written and not looked at.
    pub(crate) fn finish(mut self) {
        self.server.finish();
    }
}
