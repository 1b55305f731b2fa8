//! TLS: certificates and the settings of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use barid::vfs::{OpenOptions, Vfs};
use barid_auth::sasl::Channel;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use crate::config::TlsPair;
use crate::limits::CERTIFICATE_LEN_MAX;

/// Label of the channel binding `tls-exporter` (RFC 9266 §3).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// A certificate with its key, ready to accept connections.
#[derive(Clone)]
pub(crate) struct ServerTls {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate of the server, first of its chain.
    pub(crate) certificate: CertificateDer<'static>,
}

impl ServerTls {
    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> io::Result<Self> {
        let certificate = chain.first().cloned();
        let certificate = certificate.ok_or_else(|| invalid("there is no certificate"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(invalid)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
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
        Self::new(vec![made.cert.der().clone()], key.into())
    }
}

/// Returns the channel with the data that binds SCRAM to this TLS connection.
pub(crate) fn binding(stream: &TlsStream<TcpStream>, tls: &ServerTls, channel: Channel) -> Channel {
    let (_, connection) = stream.get_ref();
    let exporter = connection.export_keying_material([0; 32], EXPORTER_LABEL, None).ok();
    let digest = ring::digest::digest(&ring::digest::SHA256, &tls.certificate);
    Channel {
        tls_exporter: exporter.map(|exporter| exporter.to_vec()),
        tls_server_end_point: Some(digest.as_ref().to_vec()),
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
