//! The server below both stand-ins: it records, judges, fails on demand, and asks the forge's own part for the answer.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response;
use kl_runner::forge::Push;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::contract::Contract;
use super::fault::Faults;
use super::history::Merge;
use super::repository::Repository;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the base path, still encoded.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<Value>,
}

impl Request {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A text in the body; empty without it.
    pub(super) fn text(&self, name: &str) -> String {
        self.body.as_ref().unwrap()[name].as_str().unwrap_or_default().to_owned()
    }

    fn number(&self, name: &str, default: usize) -> usize {
        self.parameter(name).map_or(default, |text| text.parse().unwrap())
    }

    /// The page that is asked for, and whether there is another one.
    pub(super) fn page<T: Clone>(&self, all: &[T], most: usize) -> (Vec<T>, bool) {
        let (page, size) = (self.number("page", 1), self.number("per_page", 30).min(most));
        let rest = all.iter().skip((page - 1) * size);
        (rest.clone().take(size).cloned().collect(), rest.count() > size)
    }

    pub(super) fn page_number(&self) -> usize {
        self.number("page", 1)
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub(super) fn refusal(status: u16, message: &str) -> Self {
        Self::new(status, json!({ "message": message, "documentation_url": "https://docs.example/rest" }))
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn into_response(self) -> Response {
        let mut builder = Response::builder().status(self.status).header("content-type", "application/json");
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        builder.body(Body::from(self.body.to_string())).unwrap()
    }
}

/// The part of a stand-in that is one forge's own.
pub(crate) trait Behaviour: Send + 'static {
    fn contract(&self) -> &'static Contract;
    /// The repository and its requests.
    fn repository(&mut self) -> &mut Repository;
    /// Merges a request as this forge does it, and gives the push that it is.
    fn merge(&mut self, number: u64, how: Merge) -> Push;
    /// The path that stands before everything.
    fn base(&self) -> &str;
    /// What the description does not have: answered, and not judged by it.
    fn beside(&mut self, request: &Request) -> Option<Reply>;
    fn answer(&mut self, request: &Request) -> Reply;
    /// What was written and not looked at.
    fn unread(&self) -> Vec<String>;
}

struct Shared<B> {
    behaviour: Mutex<B>,
    faults: Faults,
    seen: Mutex<Vec<Request>>,
    complaints: Mutex<Vec<String>>,
}

/// A server on loopback, for as long as it is held. When it goes, it fails the test over whatever nobody expected.
pub(crate) struct Server<B: Behaviour> {
    shared: Arc<Shared<B>>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    finished: bool,
}

impl<B: Behaviour> Server<B> {
    pub(super) fn start(behaviour: B) -> Self {
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour),
            faults: Faults::default(),
            seen: Mutex::default(),
            complaints: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().fallback(handle::<B>).with_state(Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { shared, address, stop: Some(stop), thread: Some(thread), finished: false }
    }

    /// `http://127.0.0.1:PORT`.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, B> {
        self.shared.behaviour.lock().unwrap()
    }

    /// What is to go wrong.
    pub(super) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Every request so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Fails over requests and answers that the description does not allow, faults that did not come, and writes that
    /// nobody looked at.
    pub(super) fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let mut complaints = std::mem::take(&mut *self.shared.complaints.lock().unwrap());
        complaints.extend(self.shared.faults.left());
        complaints.extend(self.state().unread());
        assert!(complaints.is_empty(), "the forge did not expect this:\n{}", complaints.join("\n"));
    }
}

impl<B: Behaviour> Drop for Server<B> {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

async fn handle<B: Behaviour>(State(shared): State<Arc<Shared<B>>>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let base = shared.behaviour.lock().unwrap().base().to_owned();
    let complain = |text: String| shared.complaints.lock().unwrap().push(text);
    let body = (!bytes.is_empty()).then(|| serde_json::from_slice(&bytes).unwrap_or(Value::Null));
    let request = Request {
        method: parts.method.to_string(),
        path: parts.uri.path().strip_prefix(&base).unwrap_or(parts.uri.path()).to_owned(),
        query: parts.uri.query().map(pairs).unwrap_or_default(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect(),
        body,
    };
    shared.seen.lock().unwrap().push(request.clone());
    let answer = || answered(&shared, &base, parts.uri.path(), &request, &complain);
    match shared.faults.next(&request) {
        None => answer().into_response(),
        Some(fault) => fault.response(answer).await,
    }
}

/// The true answer, and complaints about it and about the request.
fn answered<B: Behaviour>(
    shared: &Shared<B>,
    base: &str,
    whole_path: &str,
    request: &Request,
    complain: &impl Fn(String),
) -> Reply {
    let mut behaviour = shared.behaviour.lock().unwrap();
    let name = format!("{} {}", request.method, request.path);
    if let Some(reply) = behaviour.beside(request) {
        return reply;
    }
    if !whole_path.starts_with(base) {
        complain(format!("{name}: is not below {base}"));
    }
    let contract = behaviour.contract();
    let Some(operation) = contract.operation(&request.method, &request.path) else {
        complain(format!("{name}: no such operation is described"));
        return Reply::refusal(404, "Not Found");
    };
    for fault in contract.request_faults(&operation, &request.query, request.body.as_ref()) {
        complain(format!("{name}: {fault}"));
    }
    let reply = behaviour.answer(request);
    for fault in contract.answer_faults(&operation, reply.status, &reply.body) {
        complain(format!("the stand-in's answer to {name}: {fault}"));
    }
    reply
}

fn pairs(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// Percent-encoded text, decoded.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut index = 0;
    while index < bytes.len() {
        let hex = bytes.get(index + 1..index + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[index], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                index += 3;
            }
            (byte, _) => {
                out.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8(out).unwrap()
}
