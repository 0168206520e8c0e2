//! A connection to a node, for commands that send a request and wait for its reply.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{ArgAction, Args};
use quorate_resp::{ReplyError, ReplyLimits, ReplyParser, Value, write_request};
use quorate_server::tls::{TlsError, client_config};

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, StreamOwned};

use crate::failure::Failure;
use crate::wire::Wire;

/// How long a node may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Holds the password, where no file does.
const PASSWORD_VARIABLE: &str = "QUORATE_PASSWORD";
/// What a node without a password says to one.
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password";
/// What an encrypted port says to a client that speaks plainly.
const SPEAK_TLS: &str = "ERR this port speaks TLS";
/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Which node to talk to.
#[derive(Clone, Debug, Args)]
pub(crate) struct Endpoint {
    /// The node's host
    #[arg(short = 'h', long, global = true, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The node's port for Redis clients
    #[arg(short, long, global = true, value_name = "PORT", default_value_t = 7000)]
    pub(crate) port: u16,
    /// The file whose first line is the password [default: the variable QUORATE_PASSWORD, if it is set]
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Connect with TLS
    #[arg(long, global = true, requires = "cacert")]
    tls: bool,
    /// The certificate of the authority that signed the node's, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,
    /// A certificate to show to the node, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "key", requires = "tls")]
    cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Whether a password is given to the node, if there is one to give.
    #[arg(skip = true)]
    gives_password: bool,
    /// Print help
    #[arg(long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
}

impl Endpoint {
    /// One that is given no password.
    pub(crate) fn new(host: String, port: u16) -> Endpoint {
        Endpoint {
            host,
            port,
            password_file: None,
            tls: false,
            cacert: None,
            cert: None,
            key: None,
            gives_password: false,
            help: None,
        }
    }

    /// One that is given no password, at `HOST:PORT`.
    pub(crate) fn parse(address: &str) -> Option<Endpoint> {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Endpoint::new(host.to_owned(), port.parse().ok()?))
    }

    /// Another node at `HOST:PORT`, which is told and shown the same.
    pub(crate) fn at(&self, address: &str) -> Option<Endpoint> {
        let Endpoint { host, port, .. } = Endpoint::parse(address)?;
        Some(Endpoint { host, port, ..self.clone() })
    }

    /// The same, with TLS: whom to trust, and what to show.
    pub(crate) fn with_tls(self, ca: &Path, certificate: &Path, key: &Path) -> Endpoint {
        let owned = |path: &Path| Some(path.to_owned());
        Endpoint { tls: true, cacert: owned(ca), cert: owned(certificate), key: owned(key), ..self }
    }

    /// The same, with the password in this file, or in the environment.
    pub(crate) fn with_password_file(self, path: Option<&Path>) -> Endpoint {
        Endpoint { password_file: path.map(Path::to_owned), gives_password: true, ..self }
    }

    /// What the connection is encrypted with, if it is.
    fn session(&self) -> Result<Option<ClientConnection>, ClientError> {
        let Some(ca) = self.cacert.as_ref().filter(|_| self.tls) else { return Ok(None) };
        let identity = self.cert.as_deref().zip(self.key.as_deref());
        let config = Arc::new(client_config(ca, identity)?);
        let name = ServerName::try_from(self.host.clone()).map_err(|_| ClientError::NoName(self.host.clone()))?;
        Ok(Some(ClientConnection::new(config, name).map_err(ClientError::Encryption)?))
    }

    fn password(&self) -> Result<Option<String>, ClientError> {
        match &self.password_file {
            _ if !self.gives_password => Ok(None),
            Some(path) => first_line(path)
                .map(Some)
                .map_err(|source| ClientError::PasswordFile { path: path.display().to_string(), source }),
            None => Ok(std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    stream: Wire,
    /// For errors.
    endpoint: String,
    parser: ReplyParser,
    /// What has arrived and is not parsed yet.
    received: Vec<u8>,
}

/// Why a request got no reply. The connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot connect to {endpoint} ({source}); is a node running there? (-h and -p choose another)")]
    Unreachable { endpoint: String, source: io::Error },
    #[error("cannot read the password from {path}: {source}")]
    PasswordFile { path: String, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0:?} cannot be the name in a certificate; connect to a host by its name or address")]
    NoName(String),
    #[error("the connection cannot be encrypted: {0}")]
    Encryption(rustls::Error),
    #[error("no encrypted connection to {endpoint}: {reason}; {advice}")]
    Handshake { endpoint: String, reason: io::Error, advice: &'static str },
    #[error("{0} is an encrypted port: give --tls and --cacert")]
    SpeaksTls(String),
    #[error("the node wants to see a certificate of its authority: give --cert and --key")]
    CertificateRequired,
    #[error("the node refuses the password: {0}")]
    PasswordRefused(String),
    #[error("the node closed the connection before it answered; whether it did what was asked is unknown")]
    Closed,
    #[error("the connection failed before the answer came ({0}); whether the node did what was asked is unknown")]
    Broken(io::Error),
    #[error("what listens there does not speak the Redis protocol: {0}")]
    Foreign(#[from] ReplyError),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure(error.to_string())
    }
}

impl Client {
    pub(crate) fn connect(endpoint: &Endpoint) -> Result<Client, ClientError> {
        let stream = open(endpoint, CONNECT_WITHIN);
        let stream = stream.map_err(|source| ClientError::Unreachable { endpoint: endpoint.to_string(), source })?;
        Client::begin(endpoint, stream)
    }

    /// A client that has entered this namespace.
    pub(crate) fn connect_to_namespace(endpoint: &Endpoint, namespace: u32) -> Result<Client, Failure> {
        let mut client = Client::connect(endpoint)?;
        if namespace != 0 {
            let told = |Failure(why): Failure| Failure(format!("namespace {namespace} of {endpoint}: {why}"));
            client.ask(&["SELECT", &namespace.to_string()]).map_err(told)?;
        }
        Ok(client)
    }

    /// A client for which connecting and each call take at most so long.
    pub(crate) fn connect_within(endpoint: &Endpoint, within: Duration) -> Result<Client, ClientError> {
        let unreachable = |source| ClientError::Unreachable { endpoint: endpoint.to_string(), source };
        let stream = open(endpoint, within).map_err(unreachable)?;
        stream.set_read_timeout(Some(within)).map_err(unreachable)?;
        Client::begin(endpoint, stream)
    }

    fn begin(endpoint: &Endpoint, stream: TcpStream) -> Result<Client, ClientError> {
        let stream = match endpoint.session()? {
            Some(session) => Wire::Tls(Box::new(encrypted(endpoint, session, stream)?)),
            None => Wire::Plain(stream),
        };
        let parser = ReplyParser::new(ReplyLimits::default());
        let mut client = Client { stream, endpoint: endpoint.to_string(), parser, received: Vec::new() };
        if let Some(password) = endpoint.password()? {
            match client.call(&["AUTH", &password])? {
                // It has none; whoever may come without may come with one.
                Value::Error(text) if text.starts_with(NO_PASSWORD) => {}
                Value::Error(text) => return Err(ClientError::PasswordRefused(text)),
                _ => {}
            }
        }
        Ok(client)
    }

    /// The connection, once everything that was asked is answered.
    pub(crate) fn into_stream(self) -> Wire {
        self.stream
    }

    /// Whether the node serves, if only those who know the password.
    pub(crate) fn is_served(&mut self) -> bool {
        match self.call(&["PING"]) {
            Ok(Value::Simple(_)) => true,
            Ok(Value::Error(text)) => text.starts_with("NOAUTH"),
            _ => false,
        }
    }

    /// Sends one request and waits for its reply, which may be an error of the node's.
    pub(crate) fn call<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Value, ClientError> {
        self.send(words)?;
        match self.receive()? {
            Value::Error(text) if text.starts_with(SPEAK_TLS) => Err(ClientError::SpeaksTls(self.endpoint.clone())),
            reply => Ok(reply),
        }
    }

    /// Sends requests together and waits for the replies to all of them.
    pub(crate) fn pipeline<T: AsRef<[u8]>>(
        &mut self,
        requests: impl IntoIterator<Item = Vec<T>>,
    ) -> Result<Vec<Value>, ClientError> {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for words in requests {
            write_request(&mut bytes, &words);
            count += 1;
        }
        self.exchange(&bytes, count)
    }

    /// Sends so many requests as they are, and waits for their replies.
    pub(crate) fn exchange(&mut self, requests: &[u8], count: usize) -> Result<Vec<Value>, ClientError> {
        self.stream.write_all(requests).map_err(broken)?;
        (0..count).map(|_| self.receive()).collect()
    }

    /// Sends one request that has no reply.
    pub(crate) fn send<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<(), ClientError> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        self.stream.write_all(&request).map_err(broken)
    }

    /// As [`Client::call`], for requests of which an error is a failure.
    pub(crate) fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Value, Failure> {
        accepted(self.call(words)?)
    }

    /// Whether the node serves.
    pub(crate) fn ping(&mut self) -> Result<(), Failure> {
        match self.ask(&["PING"])? {
            Value::Simple(_) => Ok(()),
            other => Err(Failure(format!("PING was answered with {other:?}"))),
        }
    }

    /// The next reply that is not a push.
    fn receive(&mut self) -> Result<Value, ClientError> {
        loop {
            let (consumed, value) = self.parser.parse(&self.received)?;
            self.received.drain(..consumed);
            match value {
                Some(Value::Push(_)) => {}
                Some(value) => return Ok(value),
                None => self.read()?,
            }
        }
    }

    fn read(&mut self) -> Result<(), ClientError> {
        let start = self.received.len();
        self.received.resize(start + READ_BYTES, 0);
        let result = self.stream.read(&mut self.received[start..]);
        self.received.truncate(start + result.as_ref().copied().unwrap_or(0));
        match result {
            Ok(0) => Err(ClientError::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(broken(error)),
        }
    }
}

/// An answer, unless it is an error.
pub(crate) fn accepted(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::Error(message) if message.starts_with("NOAUTH") => {
            Err(Failure(format!("the node asks for a password: give --password-file or set {PASSWORD_VARIABLE}")))
        }
        Value::Error(message) => Err(Failure(format!("the node refuses: {message}"))),
        value => Ok(value),
    }
}

/// Shakes hands, so that what is wrong with that is not taken for what is wrong with a request.
fn encrypted(
    endpoint: &Endpoint,
    mut session: ClientConnection,
    mut stream: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>, ClientError> {
    while session.is_handshaking() {
        if let Err(reason) = session.complete_io(&mut stream) {
            let advice = match tls_error(&reason) {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "--cacert must be the authority that signed the node's certificate, which must be for that host"
                }
                Some(rustls::Error::InvalidMessage(_)) => "that port is not encrypted: leave out --tls",
                _ => "does that port speak TLS?",
            };
            return Err(ClientError::Handshake { endpoint: endpoint.to_string(), reason, advice });
        }
    }
    Ok(StreamOwned::new(session, stream))
}

fn broken(error: io::Error) -> ClientError {
    match tls_error(&error) {
        // Told once the handshake is over, since TLS 1.3.
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => ClientError::CertificateRequired,
        _ => ClientError::Broken(error),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn first_line(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Tries every address of the host.
fn open(endpoint: &Endpoint, within: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + within;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (endpoint.host.as_str(), endpoint.port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A node that answers its one client with `reply` in two parts and goes.
    fn answering(reply: &'static [u8]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 64];
            let _ = stream.read(&mut request).expect("a request");
            let (first, second) = reply.split_at(reply.len() / 2);
            stream.write_all(first).and_then(|()| stream.flush()).expect("sent");
            thread::sleep(Duration::from_millis(5));
            stream.write_all(second).expect("sent");
        });
        Endpoint::new("127.0.0.1".to_owned(), port)
    }

    #[test]
    fn a_reply_in_parts_is_put_together_and_pushes_are_passed_over() {
        let mut client = Client::connect(&answering(b">1\r\n+news\r\n$5\r\nhello\r\n")).expect("connected");
        assert_eq!(client.call(&["GET", "k"]).expect("a reply"), Value::Bulk(b"hello".to_vec()));
    }

    #[test]
    fn a_connection_closed_early_leaves_the_outcome_unknown() {
        let mut client = Client::connect(&answering(b"$5\r\nhel")).expect("connected");
        let error = client.call(&["INCR", "k"]).expect_err("no reply").to_string();
        assert!(error.contains("unknown"), "{error}");
    }

    #[test]
    fn nobody_there_is_told_with_what_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let error = Client::connect(&Endpoint::new("127.0.0.1".to_owned(), port)).expect_err("refused").to_string();
        assert!(error.contains("is a node running there?"), "{error}");
    }
}
