//! The tests in `clients/python`: redis-py, as others use it.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn redis_py_finds_what_it_expects_of_redis() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/run");
    let mut command = Command::new(script);
    let output = command.env("QUORATE", env!("CARGO_BIN_EXE_quorate")).stdin(Stdio::null()).output().expect("started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    println!("{told}");
}
