//! A real browser without a window, told what to do over its debugging pipe: Chromium, or whatever speaks like it.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::runners::why_unavailable;
use super::wait_until;

/// Nothing that is asked of the browser takes so long.
const LIMIT: Duration = Duration::from_mins(1);

/// The browser of this machine: `KL_TEST_BROWSER`, or the first that is on PATH. Without one the test fails.
#[track_caller]
fn program() -> Utf8PathBuf {
    let named = std::env::var("KL_TEST_BROWSER").ok().filter(|name| !name.is_empty());
    let path = std::env::var("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let found =
        path.split(':').flat_map(|dir| names.map(|name| Utf8Path::new(dir).join(name))).find(|path| path.is_file());
    named.map(Utf8PathBuf::from).or(found).unwrap_or_else(|| {
        panic!(
            "this test needs Chromium: {}; `tests/run.sh` fetches it, and so does `tests/ci/fetch.sh DIR`",
            why_unavailable()
        )
    })
}

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    events: VecDeque<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it, with a profile of its own and an empty page.
    pub(crate) fn start() -> Self {
        let profile = tempfile::Builder::new().prefix("kl-browser-").tempdir().expect("a directory can be made");
        let dir = Utf8Path::from_path(profile.path()).expect("temporary directories have plain names").to_owned();
        let (to, from) = (dir.join("to"), dir.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo runs");
        assert!(made.success());
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh", program().as_str()])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1", "--lang=en-GB"])
            .arg(format!("--user-data-dir={}", dir.join("profile")))
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", &dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("stderr")).expect("the directory is ours"))
            .spawn()
            .expect("sh runs");
        // Opened for both directions, so that opening never waits for the other side.
        let pipe = |path: &Utf8Path| OpenOptions::new().read(true).write(true).open(path).expect("the pipe is ours");
        let (to, answers) = (pipe(&to), pipe(&from));
        let (send, receive) = channel();
        // Ends when nobody listens any more, or with the process of the test.
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { child, to, from: receive, next: 0, session: None, events: VecDeque::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            browser.ask("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            drop(browser.ask(&format!("{domain}.enable"), &json!({})));
        }
        browser
    }

    /// One command, and its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) = self.from.recv_timeout(left) else {
                let said = self.child.try_wait();
                panic!("the browser did not answer {method} within {LIMIT:?} ({said:?})")
            };
            if answer["id"] == json!(id) {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    /// Opens a page and waits until its script says that it can be used.
    #[track_caller]
    pub(crate) fn open(&mut self, url: &str) {
        drop(self.ask("Page.navigate", &json!({ "url": url })));
        let ready = "document.documentElement && 'whole' in document.documentElement.dataset";
        self.wait_for(&format!("location.href === {} && {ready}", json!(url)));
    }

    /// What an expression comes to.
    #[track_caller]
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.ask("Runtime.evaluate", &params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// The same, as text.
    #[track_caller]
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        wait_until(expression, LIMIT, || (self.eval(expression) == json!(true)).then_some(()));
    }

    /// Presses a key, as `Tab`, `ArrowLeft` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            other => panic!("the harness does not know the key {other}"),
        };
        let event =
            |kind: &str| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        drop(self.ask("Input.dispatchKeyEvent", &event(if text.is_empty() { "rawKeyDown" } else { "keyDown" })));
        drop(self.ask("Input.dispatchKeyEvent", &event("keyUp")));
    }

    /// Types text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        drop(self.ask("Input.insertText", &json!({ "text": text })));
    }

    /// Lets the page believe that its reader prefers dark colours, or light ones, and no motion.
    pub(crate) fn prefer(&mut self, colours: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": colours },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        drop(self.ask("Emulation.setEmulatedMedia", &json!({ "features": features })));
    }

    /// Makes the window so wide and high.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        drop(self.ask("Emulation.setDeviceMetricsOverride", &params));
    }

    /// A picture of what can be seen.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let shot = self.ask("Page.captureScreenshot", &json!({ "format": "png" }));
        BASE64_STANDARD.decode(shot["data"].as_str().unwrap_or_default()).expect("a picture")
    }

    /// Puts a picture into a directory, if somebody wants to look at it (`KL_TEST_PICTURES`).
    pub(crate) fn keep_picture(&mut self, name: &str) {
        let picture = self.picture();
        assert!(picture.len() > 5_000, "the picture {name} is empty");
        if let Some(dir) = std::env::var_os("KL_TEST_PICTURES").filter(|dir| !dir.is_empty()) {
            fs::write(std::path::Path::new(&dir).join(format!("{name}.png")), picture).expect("the directory is there");
        }
    }

    /// What the page complained about, and what it asked the network for, except itself.
    pub(crate) fn trouble(&mut self, page: &str) -> Vec<String> {
        // Everything that was said before this answer has come.
        drop(self.eval("1"));
        let mut found = Vec::new();
        for event in self.events.drain(..) {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => found.push(format!("exception: {}", params["exceptionDetails"])),
                "Runtime.consoleAPICalled" => found.push(format!("console: {}", params["args"])),
                "Log.entryAdded" => found.push(format!("log: {}", params["entry"]["text"])),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    if url.split('#').next() != Some(page) && url != "about:blank" {
                        found.push(format!("request: {url}"));
                    }
                }
                _ => {}
            }
        }
        found
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to end, it ends its own processes as well.
        self.session = None;
        drop(self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0"));
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
