//! What is stopped: gently first, then for good, and nobody of its group is left.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use kl_runner::terraform::{Stop, Terraform, TerraformError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{real_terraform, run_fake, stop};
use crate::lab::{Lab, apply, environment, init, plan};

/// Whether a process lives; a zombie does not.
fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

/// Waits until a file has text in it.
async fn text_of(path: &Utf8Path) -> String {
    let began = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(began.elapsed() < Duration::from_secs(30), "{path} was not written"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a process is gone: a signal takes effect a moment after it was sent.
async fn assert_dies(pid: &str) {
    let began = Instant::now();
    while is_alive(pid) {
        assert!(began.elapsed() < Duration::from_secs(5), "process {pid} lives");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A quick resource, and one whose provisioner writes its process number and works on.
fn quick_and_slow(lab: &Lab, work: &str) {
    let pid = lab.path("pid");
    lab.write(
        "repo/main.tf",
        &format!(
            r#"
resource "terraform_data" "quick" {{}}
resource "terraform_data" "slow" {{
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {{
    command = "echo $$ > {pid}; {work}"
  }}
}}
"#
        ),
    );
}

/// Applies and does something when the provisioner has started.
async fn apply_and_then(
    lab: &Lab,
    stop: &Stop,
    then: impl FnOnce() + Send + 'static,
) -> (TerraformError, Value, String) {
    apply_with(&lab.terraform().await, lab, stop, then).await
}

async fn apply_with(
    terraform: &Terraform,
    lab: &Lab,
    stop: &Stop,
    then: impl FnOnce() + Send + 'static,
) -> (TerraformError, Value, String) {
    let workspace = lab.workspace("", "default");
    init(terraform, &workspace).await;
    plan(terraform, &workspace).await;
    let pid_file = lab.path("pid");
    let watcher = tokio::spawn(async move {
        let pid = text_of(&pid_file).await;
        then();
        pid
    });
    let error = apply(terraform, &workspace, stop, |_| {}).await.unwrap_err();
    let state = serde_json::from_str(&workspace.read_state().unwrap().unwrap()).unwrap();
    (error, state, watcher.await.unwrap())
}

fn resource<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    state["resources"].as_array().unwrap().iter().find(|resource| resource["name"] == name)
}

#[tokio::test]
async fn an_interrupted_apply_writes_what_it_did() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "exec sleep 60");
    let stop = stop(Duration::from_secs(30));
    let interrupt = stop.interrupt.clone();
    let began = Instant::now();
    let (error, state, pid) = apply_and_then(&lab, &stop, move || interrupt.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: false, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "it did not wait for the provisioner");
    assert!(resource(&state, "quick").is_some());
    assert_eq!(resource(&state, "slow").unwrap()["instances"][0]["status"], "tainted");
    assert_dies(&pid).await;
}

#[tokio::test]
async fn a_killed_apply_leaves_nobody_of_its_group() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "trap '' INT TERM HUP; sleep 60; sleep 60");
    let stop = stop(Duration::from_secs(30));
    let kill = stop.kill.clone();
    let (error, state, pid) = apply_and_then(&lab, &stop, move || kill.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: true, .. }), "{error}");
    assert!(resource(&state, "quick").is_some(), "finished resources are in the file");
    assert_dies(&pid).await;
}

/// As plain Terraform leaves it: a tunnel that a provisioner has opened is meant to stay.
#[tokio::test]
async fn what_a_successful_apply_leaves_running_lives_on() {
    let lab = Lab::new(&[]);
    let pid = lab.path("pid");
    lab.write(
        "repo/main.tf",
        &format!(
            "resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    command = \"sleep 60 > /dev/null 2>&1 & echo $! > {pid}\"\n  }}\n}}\n"
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    let pid = text_of(&pid).await;
    assert!(is_alive(&pid));
    kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_terraform_that_does_not_listen_is_killed_after_the_grace() {
    let lab = Lab::new(&[("main.tf", "")]);
    let pid = lab.path("pid");
    let stop = stop(Duration::from_millis(100));
    let interrupt = stop.interrupt.clone();
    let pid_file = pid.clone();
    tokio::spawn(async move {
        text_of(&pid_file).await;
        interrupt.cancel();
    });
    let error = run_fake(&lab, &format!("trap '' INT TERM\necho $$ > {pid}\nsleep 60; sleep 60"), &stop).await;
    assert!(matches!(error, Err(TerraformError::Cancelled { cut: true, .. })), "{error:?}");
    assert_dies(&text_of(&pid).await).await;
}

#[tokio::test]
async fn a_terraform_that_finishes_what_it_is_at_is_cut_off_only_when_time_is_short() {
    for short in [false, true] {
        let lab = Lab::new(&[("main.tf", "")]);
        let (begun, asked, go) = (lab.path("begun"), lab.path("asked"), lab.path("go"));
        // No grace at all, from when time is short.
        let stop = Stop { grace: Duration::ZERO, ..Stop::never() };
        let (told, files) = (stop.clone(), (begun.clone(), asked.clone(), go.clone()));
        tokio::spawn(async move {
            text_of(&files.0).await;
            told.interrupt.cancel();
            text_of(&files.1).await;
            if short {
                told.soon.cancel();
            } else {
                std::fs::write(&files.2, "x").unwrap();
            }
        });
        let finishes = format!("echo x > {asked}; while [ ! -e {go} ]; do sleep 0.02; done; exit 1");
        let script = format!("trap '{finishes}' INT\necho x > {begun}\nwhile :; do sleep 0.02; done");
        let error = run_fake(&lab, &script, &stop).await;
        assert!(matches!(error, Err(TerraformError::Cancelled { cut, .. }) if cut == short), "{error:?}");
    }
}

/// A state over HTTP that interrupts as soon as it is asked for, and answers later; sets the flag when it does.
fn slow_state(stop: &Stop) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let answered = Arc::new(AtomicBool::new(false));
    let (interrupt, flag) = (stop.interrupt.clone(), Arc::clone(&answered));
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        interrupt.cancel();
        std::thread::sleep(Duration::from_millis(1500));
        flag.store(true, Ordering::SeqCst);
        let state = r#"{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}"#;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{state}", state.len());
        // Nobody may be there any more.
        drop(connection.write_all(answer.as_bytes()));
    });
    (address, answered)
}

#[tokio::test]
async fn an_interrupted_terraform_may_finish_what_is_in_flight() {
    let lab = Lab::new(&[]);
    let stop = stop(Duration::from_secs(30));
    let (address, answered) = slow_state(&stop);
    lab.write(
        "repo/main.tf",
        &format!(
            r#"
resource "terraform_data" "first" {{}}
data "terraform_remote_state" "slow" {{
  depends_on = [terraform_data.first]
  backend    = "http"
  config     = {{ address = "{address}" }}
}}
"#
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    // A second interrupt would make Terraform give up at once.
    let ended = apply(&terraform, &workspace, &stop, |_| {}).await;
    assert!(answered.load(Ordering::SeqCst), "Terraform did not wait: {ended:?}");
    assert!(workspace.read_state().unwrap().unwrap().contains("\"first\""));
}

#[tokio::test]
async fn a_script_in_front_of_terraform_does_not_make_the_interrupt_rough() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "exec sleep 60");
    let real = real_terraform();
    let wrapper = lab.script("bin/terraform", &format!("trap 'exit 130' INT\n{real} \"$@\" &\nwait $!"));
    let terraform = lab.locate(Some(wrapper.as_str()), environment()).await.unwrap();
    let stop = stop(Duration::from_secs(30));
    let interrupt = stop.interrupt.clone();
    let (error, state, pid) = apply_with(&terraform, &lab, &stop, move || interrupt.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: false, .. }), "{error}");
    assert_eq!(resource(&state, "slow").unwrap()["instances"][0]["status"], "tainted");
    assert_dies(&pid).await;
}

#[tokio::test]
async fn a_dropped_call_leaves_nobody() {
    let lab = Lab::new(&[("main.tf", "")]);
    let pid = lab.path("pid");
    let never = Stop::never();
    let work = format!("sh -c 'echo $$ > {pid}; sleep 60; sleep 60'");
    let call = run_fake(&lab, &work, &never);
    tokio::select! {
        _ = call => panic!("it ended by itself"),
        _ = text_of(&pid) => {}
    }
    assert_dies(&text_of(&pid).await).await;
}

#[tokio::test]
async fn a_cancelled_stop_starts_nothing() {
    let lab = Lab::new(&[("main.tf", "")]);
    let stop = stop(Duration::ZERO);
    stop.interrupt.cancel();
    let marker = lab.path("started");
    let error = run_fake(&lab, &format!("touch {marker}"), &stop).await;
    assert!(matches!(error, Err(TerraformError::Cancelled { cut: false, .. })));
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_process_that_was_killed_from_outside_says_so() {
    let lab = Lab::new(&[("main.tf", "")]);
    let error = run_fake(&lab, "kill -9 $$", &Stop::never()).await.unwrap_err();
    assert!(error.to_string().contains("signal 9"), "{error}");
}
