//! A server with a certificate that only the job knows: `CI_SERVER_TLS_CA_FILE`.

use std::sync::Arc;
use std::time::Duration;

use kl_runner::forge::{
    ForgeError, ForgeSettings, GithubSettings, GitlabSettings, Patience, connect, install_tls_provider,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::forges::hasty;

/// A server that speaks TLS and answers everything with an empty object. Gives its origin, and the authority that
/// vouches for it.
async fn serve() -> (String, String) {
    install_tls_provider();
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us goes away; that is its answer.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 8_192];
            if stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                drop(stream.write_all(answer.as_bytes()).await);
                drop(stream.shutdown().await);
            }
        }
    });
    (origin, authority_certificate.pem())
}

fn both(origin: &str, certificates: Option<&[u8]>) -> [ForgeSettings; 2] {
    let certificates = certificates.map(<[u8]>::to_vec);
    let gitlab = GitlabSettings {
        api_url: format!("{origin}/api/v4"),
        project: "7".into(),
        project_url: None,
        token: Some("glpat-x".into()),
        job_token: None,
        pipeline: None,
        certificates: certificates.clone(),
    };
    let github = GithubSettings {
        api_url: format!("{origin}/api/v3"),
        graphql_url: None,
        repository: "example/infra".into(),
        token: None,
        certificates,
    };
    [ForgeSettings::Gitlab(gitlab), ForgeSettings::Github(github)]
}

#[tokio::test]
async fn an_authority_that_the_job_names_is_trusted_and_no_other() {
    let (origin, authority) = serve().await;
    // A busy machine may take its time for an answer; only where none is to come there is no time to lose.
    let short = Patience { total: Duration::from_secs(2), ..hasty() };
    for settings in both(&origin, Some(authority.as_bytes())) {
        let access = connect(&settings, hasty()).unwrap().access().await;
        assert_eq!(access[0].granted, Some(true), "{access:?}");
    }
    for settings in both(&origin, None) {
        let error = connect(&settings, short).unwrap().request(1).await.unwrap_err();
        assert!(matches!(error, ForgeError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}
