//! Answers of a forge that is broken, or not a forge at all.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kl_runner::forge::{
    Check, Forge, ForgeError, ForgeSettings, GithubSettings, GitlabSettings, Patience, Push, connect,
};

use super::fuzz;

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// Answers every request with what it is told.
struct Parrot {
    address: String,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Parrot {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&answer);
        // Both end with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, answer }
    }

    fn says(&self, body: &[u8]) {
        // Mostly what a forge says, and now and then a refusal.
        let status = match body.len() % 7 {
            0 => "404 Not Found",
            1 => "422 Unprocessable Content",
            2 => "403 Forbidden",
            _ => "200 OK",
        };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut answer = head.into_bytes();
        answer.extend_from_slice(body);
        *self.answer.lock().unwrap() = answer;
    }
}

/// Reads requests from a connection, and answers each.
fn serve(stream: TcpStream, answer: &Mutex<Vec<u8>>) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        let answer = answer.lock().unwrap().clone();
        if reader.read_exact(&mut body).is_err() || writer.write_all(&answer).is_err() {
            return;
        }
    }
}

fn patience() -> Patience {
    let instant = Duration::from_millis(1);
    Patience {
        first: instant,
        longest: instant,
        total: Duration::from_millis(20),
        answer: Duration::from_secs(5),
        second: instant,
    }
}

async fn ask(forge: &dyn Forge) -> Vec<ForgeError> {
    let push = Push { branch: "main".to_owned(), before: Some(SHA.replace('0', "1")), after: SHA.to_owned() };
    let check = Check {
        name: "kl plan: a".to_owned(),
        commit: SHA.to_owned(),
        conclusion: None,
        title: "t".to_owned(),
        summary: "s".to_owned(),
        text: String::new(),
        annotations: Vec::new(),
        details_url: None,
    };
    let results = [
        forge.request(7).await.err(),
        forge.request_files(7).await.err(),
        forge.push_files(&push).await.err(),
        forge.merged_by(&push).await.err(),
        forge.comment_put(7, None, "<!-- m -->", "<!-- m -->\nx").await.err(),
        forge.check_put(&check, None).await.err(),
    ];
    drop(forge.access().await);
    results.into_iter().flatten().collect()
}

fn fuzz_forge(name: &'static str, settings: impl Fn(String) -> ForgeSettings, seeds: &[String]) {
    let parrot = Parrot::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let forge = {
        let _entered = runtime.enter();
        connect(&settings(parrot.address.clone()), patience()).unwrap()
    };
    fuzz(name, seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(), move |input| {
        parrot.says(input);
        for error in runtime.block_on(ask(&*forge)) {
            assert!(error.to_string().len() < 4_000, "{} bytes", error.to_string().len());
        }
    });
}

fn github(address: String) -> ForgeSettings {
    ForgeSettings::Github(GithubSettings {
        api_url: address,
        graphql_url: None,
        repository: "a/b".to_owned(),
        token: Some("t".into()),
        certificates: None,
    })
}

fn gitlab(address: String) -> ForgeSettings {
    ForgeSettings::Gitlab(GitlabSettings {
        api_url: address,
        project: "1".to_owned(),
        project_url: None,
        token: Some("t".into()),
        job_token: None,
        pipeline: Some(1),
        certificates: None,
    })
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let parrot = Parrot::start();
    // Of a length by which the parrot takes it for a success.
    parrot.says(&vec![b' '; 65 * 1024 * 1024 / 7 * 7 + 3]);
    for settings in [github(parrot.address.clone()), gitlab(parrot.address.clone())] {
        let patience = Patience { total: Duration::from_mins(1), answer: Duration::from_mins(1), ..patience() };
        let error = connect(&settings, patience).unwrap().request(7).await.unwrap_err().to_string();
        assert!(error.contains("the answer has more than 67108864 bytes"), "{error}");
    }
}

#[test]
fn answers_of_github() {
    let pull = format!(
        r#"{{"number":7,"title":"x","state":"open","merged_at":null,"merge_commit_sha":"{SHA}","user":{{"login":"alice"}},"head":{{"sha":"{SHA}","ref":"x","repo":{{"full_name":"a/b"}}}},"base":{{"sha":"{SHA}","ref":"main","repo":{{"full_name":"a/b"}}}}}}"#
    );
    let files = r#"[{"filename":"a.tf","status":"renamed","previous_filename":"b.tf"}]"#.to_owned();
    let compared = format!(
        r#"{{"files":[{{"filename":"a.tf"}}],"commits":[{{"sha":"{SHA}"}}],"total_commits":1,"id":1,"node_id":"x"}}"#
    );
    let comments = r#"[{"id":1,"body":"<!-- m -->\nx","user":{"login":"a"},"html_url":"https://h/1"}]"#.to_owned();
    let login = r#"{"data":{"viewer":{"login":"a"}}}"#.to_owned();
    let list = format!("[{pull}]");
    let refusal = r#"{"message":"no","errors":[{"code":"invalid"}]}"#.to_owned();
    fuzz_forge("answers-of-github", github, &[pull, files, compared, comments, login, list, refusal]);
}

#[test]
fn answers_of_gitlab() {
    let request = format!(
        r#"{{"iid":7,"title":"x","state":"merged","sha":"{SHA}","merge_commit_sha":"{SHA}","squash_commit_sha":null,"target_branch":"main","source_project_id":1,"target_project_id":1}}"#
    );
    let diffs = r#"[{"new_path":"a.tf","old_path":"b.tf","renamed_file":true}]"#.to_owned();
    let compared = format!(
        r#"{{"diffs":[{{"new_path":"a.tf","old_path":"a.tf"}}],"commits":[{{"id":"{SHA}"}}],"compare_timeout":false}}"#
    );
    let notes = r#"[{"id":1,"body":"<!-- m -->\nx","author":{"username":"a","id":1},"system":false}]"#.to_owned();
    let user = r#"{"username":"a","id":1,"scopes":["api"]}"#.to_owned();
    let list = format!("[{request}]");
    let refusal = r#"{"message":{"note":["no"]},"error":"x"}"#.to_owned();
    fuzz_forge("answers-of-gitlab", gitlab, &[request, diffs, compared, notes, user, list, refusal]);
}
