//! What is done with bytes from outside, one function for each way in: nothing of them may panic, hang, or take memory out
//! of proportion. The fuzzer calls these functions, and so does the test that replays the corpora.

use std::path::Path;

use quorate_node::frame::{decode_frame, frame_length, messages};
use quorate_protocol::GroupId;
use quorate_resp::{ReplyLimits, ReplyParser, RequestLimits, RequestParser};
use quorate_server::config::Config;
use quorate_wal::memory::MemoryStorage;
use quorate_wal::{Kind, PAGE_BYTES, Settings, Storage, Wal};
use xxhash_rust::xxh3::xxh3_64;

/// Requests of clients and replies of servers. However the bytes arrive, they mean the same.
pub fn resp(bytes: &[u8]) {
    let Some((&step, bytes)) = bytes.split_first() else { return };
    let whole = requests(bytes, bytes.len().max(1));
    let in_parts = requests(bytes, usize::from(step).max(1));
    assert_eq!(whole, in_parts, "requests depend on how they arrive");
    let whole = replies(bytes, bytes.len().max(1));
    let in_parts = replies(bytes, usize::from(step).max(1));
    assert_eq!(whole, in_parts, "replies depend on how they arrive");
}

/// The requests in these bytes, which arrive so many at a time, and the error that ends them.
fn requests(bytes: &[u8], step: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = RequestLimits {
        argument_length_max: 4096,
        argument_count_max: 64,
        line_length_max: 256,
        request_length_max: 8192,
    };
    let mut parser = RequestParser::new(limits);
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    for part in bytes.chunks(step) {
        buffer.extend_from_slice(part);
        loop {
            match parser.parse(&mut buffer) {
                Ok(Some(length)) => {
                    found.push(parser.arguments(&buffer).iter().map(<[u8]>::to_vec).collect());
                    assert!(length > 0, "a request of no bytes");
                    buffer.drain(..length);
                }
                Ok(None) => break,
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }
    (found, None)
}

fn replies(bytes: &[u8], step: usize) -> (Vec<String>, bool) {
    let limits = ReplyLimits { depth_max: 8, string_length_max: 4096, element_count_max: 256, line_length_max: 256 };
    let mut parser = ReplyParser::new(limits);
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    for part in bytes.chunks(step) {
        buffer.extend_from_slice(part);
        loop {
            match parser.parse(&buffer) {
                Ok((length, value)) => {
                    buffer.drain(..length);
                    match value {
                        Some(value) => found.push(format!("{value:?}")),
                        None => break,
                    }
                }
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

/// A frame of a peer. Its length and checksum are set right, so that what is inside is looked at too.
pub fn frame(bytes: &[u8]) {
    const LENGTH_BYTES: usize = 4;
    const CHECKSUM_BYTES: usize = 8;
    let _ = (frame_length(bytes), decode_frame(bytes).is_ok());
    let mut whole = vec![0; LENGTH_BYTES + CHECKSUM_BYTES];
    whole.extend_from_slice(bytes);
    let length = (whole.len() - LENGTH_BYTES) as u32;
    let checksum = xxh3_64(bytes);
    whole[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    whole[LENGTH_BYTES..LENGTH_BYTES + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    let Ok((_, inside)) = decode_frame(&whole) else { return };
    for message in messages(inside).map_while(Result::ok) {
        let mut again = Vec::new();
        message.encode(&mut again);
        let read: Vec<String> = messages(&again).map(|read| format!("{read:?}")).collect();
        assert_eq!(read, [format!("Ok({message:?})")], "what is written is read");
    }
}

/// A log as it is found on a disk: pieces of pages, placed by one byte and measured by another. If the first byte is odd,
/// the blocks' checksums are set right.
pub fn log(bytes: &[u8]) {
    const SEGMENT_BYTES: u64 = 16 << 10;
    const PAGES: usize = SEGMENT_BYTES as usize / PAGE_BYTES;
    let Some((&manner, mut bytes)) = bytes.split_first() else { return };
    let mut segment = vec![0; SEGMENT_BYTES as usize];
    while let [place, length, rest @ ..] = bytes {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let at = usize::from(*place) % PAGES * PAGE_BYTES;
        segment[at..][..piece.len()].copy_from_slice(piece);
        bytes = rest;
    }
    if manner % 2 == 1 {
        (0..PAGES).for_each(|page| set_checksum(&mut segment[page * PAGE_BYTES..]));
    }
    let mut storage = MemoryStorage::default();
    storage.create(1, SEGMENT_BYTES).expect("memory has room");
    storage.write(1, 0, &segment).expect("it is there");
    storage.sync().expect("memory does not fail");
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::new(LOG_ID) };
    let mut found = Vec::new();
    let opened = Wal::open(&storage, settings.clone(), |record| found.push((record.group, record.lsn)));
    let Ok(mut wal) = opened else { return };
    // Whatever was found, the log goes on behind it, and finds it again.
    wal.append(1, Kind::Slot(1 << 40), b"new");
    let Some(submission) = wal.submit() else { return };
    submission.perform(&mut storage).expect("memory has room");
    let mut again = Vec::new();
    let reopened = Wal::open(&storage, settings, |record| again.push((record.group, record.lsn)));
    assert!(reopened.is_ok() && again.starts_with(&found), "{found:?}, then {again:?}");
    assert_eq!(again.last(), Some(&(1, submission.lsn)), "{again:?}");
}

/// The log that the corpus is of.
pub const LOG_ID: u64 = 0x0123_4567_89ab_cdef;

/// A block begins with the checksum of what follows it, and holds its length further on.
fn set_checksum(block: &mut [u8]) {
    const LENGTH_AT: usize = 64;
    let length = u32::from_le_bytes(*block[LENGTH_AT..].first_chunk().expect("a page is longer")) as usize;
    if (LENGTH_AT..=block.len()).contains(&length) {
        let checksum = xxh3_64(&block[8..length]);
        block[..8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// A snapshot from a peer, of the root if the first byte is odd.
pub fn snapshot(bytes: &[u8]) {
    let Some((&manner, bytes)) = bytes.split_first() else { return };
    let group = GroupId(if manner % 2 == 1 { quorate_node::root::ROOT.0 } else { 1000 });
    let _ = quorate_node::host::check_snapshot(group, bytes);
}

/// A configuration file. One that is taken is written in the same words ever after.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("node.toml");
    match Config::parse(text, path) {
        Ok(config) => {
            let written = config.to_toml();
            let again = Config::parse(&written, path).expect("what is written is taken");
            assert_eq!(again, config, "what is written is read");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error}"),
    }
}

/// A pattern and a name, split at the first zero byte.
pub fn glob(bytes: &[u8]) {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (pattern, name) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    let matches = quorate_object::glob::matches(pattern, name);
    let is_plain = pattern.iter().all(|byte| !b"*?[\\".contains(byte));
    if is_plain {
        assert_eq!(matches, pattern == name, "{pattern:?} {name:?}");
    }
    if pattern.iter().all(|byte| *byte == b'*') && !pattern.is_empty() && !name.is_empty() {
        assert!(matches, "{pattern:?} {name:?}");
    }
}
