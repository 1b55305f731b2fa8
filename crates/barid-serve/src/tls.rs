//! TLS: certificates and the settings of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use barid::vfs::{OpenOptions, Vfs};
use barid_auth::sasl::Channel;
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use crate::config::TlsPair;
use crate::limits::CERTIFICATE_LEN_MAX;

/// Label of the channel binding `tls-exporter` (RFC 9266 §3).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Certificates with their keys, ready to accept connections.
#[derive(Clone)]
pub(crate) struct ServerTls {
    pub(crate) acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

/// A certificate that is used for some names.
#[derive(Debug)]
pub(crate) struct CertificateChoice {
    /// Names in lower case, `*.` before those of all hosts of a domain; those in the certificate if
    /// empty.
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

impl CertificateChoice {
    /// Uses a certificate, with those of its authorities, and its key, in PEM.
    ///
    /// # Errors
    /// `InvalidData`.
    pub(crate) fn from_pem(names: Vec<String>, certificate: &str, key: &str) -> io::Result<Self> {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(invalid)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(invalid)?;
        Self::new(names, chain, &key)
    }

    fn new(
        names: Vec<String>,
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> io::Result<Self> {
        if chain.is_empty() {
            return Err(invalid("there is no certificate"));
        }
        let key = rustls::crypto::ring::sign::any_supported_type(key).map_err(invalid)?;
        Ok(Self { names, key: Arc::new(CertifiedKey::new(chain, key)) })
    }

    fn is_for(&self, name: &str) -> bool {
        if !self.names.is_empty() {
            return self.names.iter().any(|known| match known.strip_prefix("*.") {
                Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest == domain),
                None => known == name,
            });
        }
        let Ok(certificate) = self.key.end_entity_cert() else { return false };
        let parsed = ParsedCertificate::try_from(certificate);
        let wanted = ServerName::try_from(name);
        match (parsed, wanted) {
            (Ok(parsed), Ok(wanted)) => verify_server_name(&parsed, &wanted).is_ok(),
            _ => false,
        }
    }
}

/// Certificates of which one is chosen by the name that a client gives.
#[derive(Debug)]
struct Certificates(Vec<CertificateChoice>);

impl Certificates {
    fn choose(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let name = name.map(str::to_ascii_lowercase);
        let found = name.and_then(|name| self.0.iter().find(|one| one.is_for(&name)));
        found.or(self.0.first()).map(|one| &one.key)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name()).cloned()
    }
}

impl ServerTls {
    /// Chooses among certificates by the name that the client gives; the first is for those who
    /// give none, or an unknown one.
    ///
    /// # Errors
    /// No certificate.
    pub(crate) fn choosing(certificates: Vec<CertificateChoice>) -> io::Result<Self> {
        if certificates.is_empty() {
            return Err(invalid("there is no certificate"));
        }
        let certificates = Arc::new(Certificates(certificates));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificates) as _);
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }

    /// Makes a certificate for this machine that no authority vouches for, and writes it to `path`
    /// for clients to trust.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn self_signed(vfs: &dyn Vfs, path: &Path) -> io::Result<Self> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(invalid)?;
        if let Some(dir) = path.parent() {
            vfs.create_dir_all(dir, 0o700)?;
        }
        let text = made.cert.pem();
        let file = vfs.open(path, OpenOptions::create(0o644))?;
        file.set_len(0)?;
        file.write_all_at(text.as_bytes(), 0)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        Self::choosing(vec![CertificateChoice::new(Vec::new(), chain, &key.into())?])
    }
}

/// Returns the channel with the data that binds SCRAM to this TLS connection.
pub(crate) fn binding<S>(stream: &TlsStream<S>, tls: &ServerTls, channel: Channel) -> Channel {
    let (_, connection) = stream.get_ref();
    let exporter = connection.export_keying_material([0; 32], EXPORTER_LABEL, None).ok();
    let used = tls.certificates.choose(connection.server_name());
    let certificate = used.and_then(|used| used.end_entity_cert().ok());
    let digest = certificate.map(|one| ring::digest::digest(&ring::digest::SHA256, one));
    Channel {
        tls_exporter: exporter.map(|exporter| exporter.to_vec()),
        tls_server_end_point: digest.map(|digest| digest.as_ref().to_vec()),
        ..channel
    }
}

/// Reads a certificate with its chain and its key, both in the form of PEM.
///
/// # Errors
/// Errors of the file system, files of another form, and a key that is not the certificate's; each
/// with the path.
pub(crate) fn load_pair(vfs: &dyn Vfs, pair: &TlsPair) -> io::Result<CertifiedKey> {
    let read = |path: &Path| {
        let bytes = vfs.read(path, CERTIFICATE_LEN_MAX);
        bytes.map(Zeroizing::new).map_err(|error| at(path, error.kind(), error))
    };
    let (certificate, key) = (read(&pair.certificate)?, read(&pair.key)?);
    let no_certificate = |error| at(&pair.certificate, io::ErrorKind::InvalidData, error);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| no_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(no_certificate("there is no certificate in it".to_owned()));
    }
    let no_key = |error: String| at(&pair.key, io::ErrorKind::InvalidData, error);
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| no_key(error.to_string()))?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key);
    let key = key.map_err(|error| no_key(error.to_string()))?;
    let pair_of = CertifiedKey::new(chain, key);
    match pair_of.keys_match() {
        Ok(()) => Ok(pair_of),
        Err(error) => Err(no_key(format!("not the key of the certificate: {error}"))),
    }
}

fn at(path: &Path, kind: io::ErrorKind, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_chosen_by_name() {
        let made = |in_it: &str, names: &[&str]| {
            let made = rcgen::generate_simple_self_signed(vec![in_it.to_owned()]).unwrap();
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            CertificateChoice::from_pem(names, &certificate, &key).unwrap()
        };
        let all = vec![made("a.example", &[]), made("b.example", &[]), made("c", &["*.d", "e"])];
        let all = Certificates(all);
        let check = |name: Option<&str>, expected: usize| {
            let chosen = all.choose(name).unwrap();
            assert!(Arc::ptr_eq(chosen, &all.0[expected].key), "{name:?}");
        };
        check(None, 0);
        check(Some("a.example"), 0);
        check(Some("B.example"), 1);
        check(Some("x.d"), 2);
        check(Some("e"), 2);
        check(Some("c"), 0);
        check(Some("x.y.d"), 0);
        assert!(ServerTls::choosing(Vec::new()).is_err());
        assert!(CertificateChoice::from_pem(Vec::new(), "", "").is_err());
    }
}
