//! What the fuzzers found worth keeping, once more: each input of each corpus does what the target asserts. See
//! docs/operations/fuzzing.md.

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::panic::catch_unwind;
use std::path::Path;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 6] = [
    ("resp", fuzz::resp),
    ("frame", fuzz::frame),
    ("log", fuzz::log),
    ("snapshot", fuzz::snapshot),
    ("config", fuzz::config),
    ("glob", fuzz::glob),
];

#[test]
fn every_input_of_the_corpora_is_taken() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let folder = corpora.join(name);
        let mut count = 0;
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder can be listed").path();
            let bytes = std::fs::read(&path).expect("a file can be read");
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{} fails", path.display());
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }
}
