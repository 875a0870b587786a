//! TLS of the backend: a certificate that can be replaced while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The certificate that a server shows, and its key.
pub struct Tls(RwLock<Arc<ServerConfig>>);

/// Why a certificate and its key cannot be used. The key is never repeated.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// The certificate cannot be read.
    #[error("the certificate cannot be read")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// There is no key, or it cannot be read.
    #[error("there is no private key in it (PEM, without a password)")]
    Key,
    /// They do not fit together, or are of a kind that is not known.
    #[error("the certificate and its key cannot be used together")]
    Unfit(#[source] rustls::Error),
}

impl Tls {
    /// Takes a chain of certificates, the server's own first, and the key of that, both as PEM.
    ///
    /// # Errors
    /// When they cannot be read or do not fit together.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(Self(RwLock::new(config(chain, key)?)))
    }

    /// Shows another certificate to connections from now on.
    ///
    /// # Errors
    /// As in [`Tls::new`]; then everything stays as it is.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let config = config(chain, key)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn config(chain: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>().map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(TlsError::Unfit)?.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(TlsError::Unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_own_key() {
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let tls = Tls::new(chain.as_bytes(), key.as_bytes()).unwrap();
        let before = Arc::clone(&tls.0.read().unwrap());
        let foreign = other.signing_key.serialize_pem();
        assert!(matches!(tls.replace(chain.as_bytes(), foreign.as_bytes()), Err(TlsError::Unfit(_))));
        assert!(matches!(tls.replace(key.as_bytes(), key.as_bytes()), Err(TlsError::NoCertificate)));
        assert!(matches!(tls.replace(chain.as_bytes(), chain.as_bytes()), Err(TlsError::Key)));
        let broken = chain.replace("-----END", "?????END");
        assert!(matches!(
            Tls::new(broken.as_bytes(), key.as_bytes()),
            Err(TlsError::Certificate(_) | TlsError::NoCertificate)
        ));
        assert!(Arc::ptr_eq(&before, &tls.0.read().unwrap()));
        tls.replace(other.cert.pem().as_bytes(), foreign.as_bytes()).unwrap();
        assert!(!Arc::ptr_eq(&before, &tls.0.read().unwrap()));
    }
}
