//! A connection to one of the two servers, and the Redis that the other one is compared with.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::step::Step;
use crate::nodes::{Ports, until};

/// How long a reply may take before it is missing.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Where a server listens.
pub(crate) type Address = (&'static str, u16);

/// A Redis 7.0 of its own, without persistence, that ends with this value.
pub(crate) struct Redis {
    child: Child,
    scratch: PathBuf,
    pub(crate) address: Address,
}

impl Redis {
    /// `databases` is how many `SELECT` may enter.
    pub(crate) fn started(databases: u32) -> Redis {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/redis-server");
        let output = Command::new(script).stdin(Stdio::null()).output().expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let program = String::from_utf8(output.stdout).expect("a path");
        let port = Ports::free(1).client;
        let scratch = std::env::temp_dir().join(format!("quorate-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&scratch).expect("a directory of its own");
        let log = File::create(scratch.join("log")).expect("writable");
        let child = Command::new(program.trim())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(&scratch)
            .args(["--save", "", "--appendonly", "no", "--databases", &databases.to_string()])
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("started");
        let address = ("127.0.0.1", port);
        until("Redis answers", || Peer::try_connect(address).is_ok());
        Redis { child, scratch, address }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

pub(crate) struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    marks: u64,
}

/// What a server said to a batch.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Replies {
    /// Each byte for byte.
    pub(crate) replies: Vec<Vec<u8>>,
    /// Whether it closed the connection.
    pub(crate) is_closed: bool,
}

impl Peer {
    pub(crate) fn connect(address: Address) -> Peer {
        Peer::try_connect(address).expect("the server takes clients")
    }

    fn try_connect(address: Address) -> std::io::Result<Peer> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
        Ok(Peer { stream, received: Vec::new(), marks: 0 })
    }

    /// Sends the batch and, behind it, an ECHO that shows where the replies end.
    pub(crate) fn send(&mut self, batch: &[Step]) {
        let mut bytes = Vec::new();
        batch.iter().for_each(|step| step.write(&mut bytes));
        self.marks += 1;
        Step::of(&["ECHO", &self.mark()]).write(&mut bytes);
        // A server that has closed the connection meanwhile is noticed when its replies are read.
        let _ = self.stream.write_all(&bytes);
    }

    /// All replies to what was sent.
    pub(crate) fn receive(&mut self) -> Replies {
        let mark = self.mark();
        let end = format!("${}\r\n{mark}\r\n", mark.len()).into_bytes();
        let mut replies = Vec::new();
        loop {
            while let Some(length) = reply_length(&self.received) {
                let reply: Vec<u8> = self.received.drain(..length).collect();
                if reply == end {
                    return Replies { replies, is_closed: false };
                }
                replies.push(reply);
            }
            if !self.read() {
                // What is no reply is shown as one, to be compared.
                if !self.received.is_empty() {
                    replies.push(std::mem::take(&mut self.received));
                }
                return Replies { replies, is_closed: true };
            }
        }
    }

    /// Sends one request that must be answered, and returns the reply.
    pub(crate) fn call(&mut self, step: &Step) -> Vec<u8> {
        self.send(std::slice::from_ref(step));
        self.receive().replies.pop().unwrap_or_default()
    }

    fn mark(&self) -> String {
        format!("the end of batch {}", self.marks)
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer) {
            Ok(length) => {
                self.received.extend_from_slice(&buffer[..length]);
                length > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no reply from {:?}: {error}", self.stream.peer_addr()),
        }
    }
}

/// The length of the reply at the start of `bytes`, once it is whole.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let line_length = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let count = || str::from_utf8(&bytes[1..line_length - 2]).ok()?.parse::<i64>().ok();
    let elements = match bytes[0] {
        b'$' | b'=' => {
            let length = usize::try_from(count()?).ok().map_or(line_length, |length| line_length + length + 2);
            return (bytes.len() >= length).then_some(length);
        }
        b'*' | b'~' | b'>' => count()?,
        b'%' => count()? * 2,
        _ => 0,
    };
    (0..elements).try_fold(line_length, |length, _| Some(length + reply_length(&bytes[length..])?))
}

#[test]
fn replies_are_told_apart() {
    for reply in [
        &b"+OK\r\n"[..],
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"*2\r\n:1\r\n*1\r\n$1\r\n\r\r\n",
        b"%1\r\n+a\r\n_\r\n",
        b"=5\r\ntxt:x\r\n",
    ] {
        let followed = [reply, b"+next\r\n"].concat();
        assert_eq!(reply_length(&followed), Some(reply.len()), "{}", reply.escape_ascii());
        assert_eq!(reply_length(&reply[..reply.len() - 1]), None, "{}", reply.escape_ascii());
    }
}
