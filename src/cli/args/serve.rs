//! The command line of `kl serve` and `kl token`.

use std::net::SocketAddr;
use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand, ValueEnum};

use super::ActorArgs;
use super::value::{lifetime, socket};
use crate::domain::token::{Role, StatePattern, TokenName};

/// `kl serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = socket)]
    pub listen: SocketAddr,
    /// Listen on the socket that is the standard input, as systemd hands it over (`StandardInput=socket`): it stays open
    /// while the server restarts
    #[arg(long, conflicts_with = "listen")]
    pub listen_stdin: bool,
    /// The server's certificate and those that vouch for it (PEM); SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<Utf8PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<Utf8PathBuf>,
    /// Listen without TLS on an address that others can reach: tokens and states then pass in clear, unless a proxy in
    /// front speaks TLS
    #[arg(long, conflicts_with = "tls_cert")]
    pub insecure_listen: bool,
    /// How requests are logged on standard error
    #[arg(long, value_name = "FORMAT", default_value = "plain")]
    pub log: LogFormat,
}

/// `--log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Plain,
    /// A JSON object a line.
    Json,
}

/// `kl token …`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and show it, this once
    Create(TokenCreateArgs),
    /// List the tokens: what they open, and when they were last used; never the tokens themselves
    List,
    /// Revoke a token: from now on it opens nothing
    Revoke(TokenRevokeArgs),
}

/// `kl token create`.
#[derive(Debug, Args)]
pub struct TokenCreateArgs {
    /// What to call it, as ci-prod: it stands beside everything that is done with it
    #[arg(value_name = "NAME")]
    pub name: TokenName,
    /// The states that it opens: * stands for any text without a /, ** for any text
    #[arg(long, value_name = "PATTERN")]
    pub states: StatePattern,
    /// What it allows there
    #[arg(long, value_name = "ROLE")]
    pub role: RoleArg,
    /// How long it lasts, as 90d [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub expires_in: Option<Duration>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `--role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Read states, for terraform_remote_state and for plans with -lock=false.
    Read,
    /// Lock and write as well: everything that terraform does by itself.
    Write,
    /// Take locks of others away (terraform force-unlock) and remove states as well.
    Admin,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Read => Self::Read,
            RoleArg::Write => Self::Write,
            RoleArg::Admin => Self::Admin,
        }
    }
}

/// `kl token revoke`.
#[derive(Debug, Args)]
pub struct TokenRevokeArgs {
    /// Its name, its id, or the token itself
    #[arg(value_name = "TOKEN")]
    pub token: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}
