//! `kl serve`: the HTTP backend as a server of its own, with tokens, for the real Terraform and for whoever else asks.

mod answers;
mod crash;
mod hostile;
mod leaves;
mod limits;
mod races;
mod secrets;
mod terraform;
mod tokens;

use std::fs;
use std::process::ExitStatus;
use std::sync::LazyLock;

use camino::Utf8PathBuf;
use kl_runner::domain::id::StateName;
use kl_runner::forge::install_tls_provider;
use kl_runner::server::route;
use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use regex::Regex;
use reqwest::{Client, Method};

use crate::harness::database::block_on;
use crate::harness::kl::{Kl, Running, Said};
use crate::harness::site::Site;
use crate::harness::terraform::program;

/// A server that runs. Dropping it kills it.
pub(crate) struct Server {
    running: Running,
    origin: String,
    authority: Option<String>,
}

/// What a request was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) headers: reqwest::header::HeaderMap,
}

impl Server {
    /// Starts one on a free port.
    #[track_caller]
    pub(crate) fn start(site: &Site) -> Self {
        Self::of(site.kl().args(["serve", "--listen", "127.0.0.1:0"]), None)
    }

    /// Starts one that speaks TLS.
    #[track_caller]
    pub(crate) fn start_with_tls(site: &Site) -> Self {
        let certificate = Certificate::make(site);
        let kl = site.kl().args(["serve", "--listen", "127.0.0.1:0"]);
        let kl = kl.args(["--tls-cert", certificate.chain.as_str(), "--tls-key", certificate.key.as_str()]);
        Self::of(kl, Some(certificate.authority))
    }

    /// Starts whatever this command line says, and waits until it listens.
    #[track_caller]
    pub(crate) fn of(kl: Kl, authority: Option<String>) -> Self {
        static ORIGIN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"Listening on (https?://[^;]+);").unwrap());
        install_tls_provider();
        let mut running = kl.spawn();
        running.wait_for("Listening on ");
        let said = running.said_so_far();
        let origin = ORIGIN.captures(&said).unwrap_or_else(|| panic!("it says where: {said}"))[1].to_owned();
        Self { running, origin, authority }
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.origin.split("://").nth(1).unwrap()
    }

    /// The address of a state.
    pub(crate) fn state(&self, name: &str) -> String {
        format!("{}{}", self.origin, route::path(&StateName::new(name).unwrap()))
    }

    /// What it has said so far: its log.
    pub(crate) fn log(&self) -> String {
        self.running.said_so_far()
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Tells it to stop, and waits for its end, which must be a good one.
    #[track_caller]
    pub(crate) fn stops(self) -> Said {
        self.running.signal(Signal::SIGTERM);
        self.running.exits(0)
    }

    /// Waits for its end, however it comes.
    pub(crate) fn ends(self) -> (ExitStatus, Said) {
        self.running.ends()
    }

    /// Kills it.
    pub(crate) fn dies(self) -> Said {
        self.running.signal(Signal::SIGKILL);
        self.running.ends().1
    }

    /// Terraform in `live`, with this token, on the state of this name.
    pub(crate) fn terraform(&self, site: &Site, state: &str, token: &str, args: &[&str]) -> Kl {
        let address = self.state(state);
        let mut kl = site.kl().instead(program().as_str()).dir("live").args(args.iter().copied());
        kl = kl.without("KL_DATABASE_URL").without("KL_TERRAFORM");
        for (name, value) in route::environment(&address, token) {
            kl = kl.env(name, value);
        }
        if let Some(authority) = &self.authority {
            kl = kl.env("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", authority);
        }
        kl
    }

    /// Asks as a client of its own would.
    #[track_caller]
    pub(crate) fn asks(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answered {
        block_on(self.ask(&Client::new(), method, path, token, body))
    }

    /// The same with a client that is there already.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Answered {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client.request(method, format!("{}{path}", self.origin)).body(body.to_owned());
        if let Some(token) = token {
            request = request.basic_auth("anybody", Some(token));
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answered { status, headers, body: response.text().await.unwrap() }
    }
}

/// A certificate for 127.0.0.1, in files, and the authority that vouches for it.
pub(crate) struct Certificate {
    pub(crate) chain: Utf8PathBuf,
    pub(crate) key: Utf8PathBuf,
    pub(crate) authority: String,
}

impl Certificate {
    pub(crate) fn make(site: &Site) -> Self {
        install_tls_provider();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let vouches = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let made = Self { chain: site.path("chain.pem"), key: site.path("key.pem"), authority: vouches };
        fs::write(&made.chain, certificate.pem()).unwrap();
        fs::write(&made.key, key.serialize_pem()).unwrap();
        made
    }
}

/// Makes a token.
#[track_caller]
pub(crate) fn token(site: &Site, name: &str, states: &str, role: &str) -> String {
    let said = site.kl().args(["token", "create", name, "--states", states, "--role", role]).exits(0).stdout;
    said.trim_end().to_owned()
}

/// A lock document.
pub(crate) fn lock(id: &str) -> String {
    format!(r#"{{"ID":"{id}","Operation":"OperationTypeApply","Who":"alice@laptop","Created":"2026-01-02T03:04:05Z"}}"#)
}

/// A state document without rows.
pub(crate) fn empty(serial: i64, lineage: &str) -> String {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#
    )
}
