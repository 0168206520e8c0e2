//! One node as a process, and clients that speak just enough of the Redis protocol.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, call};

/// Time enough for whatever must happen at all.
const PATIENCE: Duration = Duration::from_secs(300);

/// `quorate` as it is built for use; built now, unless one is named.
pub(crate) fn program(root: &Path, named: Option<String>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return std::path::absolute(&path).map_err(|error| format!("{path}: {error}"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    call(Command::new("cargo").args(["build", "--release", "--locked", "-p", "quorate"]).current_dir(root))?;
    Ok(target.join("release/quorate"))
}

/// A cluster of one node, with its data in `directory`.
pub(crate) struct Node {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Node {
    /// Writes its configuration into `directory`; its data go to `data`. Nothing runs yet.
    pub(crate) fn configure(program: PathBuf, directory: &Path, data: &Path) -> Result<Node, Failure> {
        let ports = free_ports().map_err(|error| format!("no free ports: {error}"))?;
        let [client, peer, admin] = ports.map(|port| format!("\"127.0.0.1:{port}\""));
        let addresses = format!("client = {client}\npeer = {peer}\nadmin = {admin}\n");
        let text = format!(
            "[node]\nid = 1\nname = \"n1\"\ndata_dir = {data:?}\n[listen]\n{addresses}[cluster]\n\
             id = \"00c0ffee00c0ffee\"\nsecret = \"for a test that nobody else reads\"\n\
             [[cluster.nodes]]\nid = 1\nname = \"n1\"\n{addresses}[defaults]\nreplicas = 1\n"
        );
        let (config, log) = (directory.join("node.toml"), directory.join("log"));
        std::fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        Ok(Node { program, config, log, port: ports[0], process: None })
    }

    /// Starts it; returns when it answers.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        let opened = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = opened.map_err(|error| format!("cannot write {}: {error}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("node").arg("--config").arg(&self.config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.process.as_mut().map(Child::try_wait);
            if let Some(Ok(Some(status))) = ended {
                return Err(format!("the node ended with {status}"));
            }
            // Reads are served once it knows the cluster.
            let answer = self.client().and_then(|mut client| client.ask(&["GET", "x"]));
            if answer.is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                eprintln!("the last answer was {answer:?}");
                return Err(format!("the node does not answer within {} s", PATIENCE.as_secs()));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn client(&self) -> io::Result<Client> {
        Client::connect(self.port)
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_ports() -> io::Result<[u16; 3]> {
    let listeners =
        [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

pub(crate) struct Client {
    to: TcpStream,
    from: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Client> {
        let to = TcpStream::connect(("127.0.0.1", port))?;
        to.set_read_timeout(Some(PATIENCE))?;
        to.set_nodelay(true)?;
        Ok(Client { from: BufReader::new(to.try_clone()?), to })
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Option<String>> {
        self.send(words)?;
        self.answer()
    }

    /// Asks all of them at once, few enough that nobody waits for the other to read.
    pub(crate) fn ask_all(&mut self, requests: impl Iterator<Item = Vec<String>>) -> io::Result<Vec<Option<String>>> {
        let requests: Vec<String> = requests.map(|words| request(&words)).collect();
        self.to.write_all(requests.concat().as_bytes())?;
        requests.iter().map(|_| self.answer()).collect()
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> io::Result<()> {
        self.to.write_all(request(words).as_bytes())
    }

    /// The next answer: a line or a string; none for nil. Errors are errors.
    pub(crate) fn answer(&mut self) -> io::Result<Option<String>> {
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(Some(text.to_owned())),
            Some(("$", "-1")) => Ok(None),
            Some(("$", _)) => self.line().map(Some),
            _ => Err(io::Error::other(line)),
        }
    }

    /// Answers here hold no line breaks.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn request<T: AsRef<str>>(words: &[T]) -> String {
    let word = |word: &T| format!("${}\r\n{}\r\n", word.as_ref().len(), word.as_ref());
    format!("*{}\r\n", words.len()) + &words.iter().map(word).collect::<String>()
}
