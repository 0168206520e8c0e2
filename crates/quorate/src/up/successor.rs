//! What `up` and `quorate upgrade` tell each other: who runs the nodes of a directory, and what a node that is asked to end is to be
//! started again with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::plan::Plan;
use crate::failure::{Context, Failure};

/// In the directory of all nodes: the process of `up`. Believed only by those who find a node to be a child of it.
const UP: &str = "up.pid";
/// In a node's directory: the program that is to be started when the node has ended well.
const SUCCESSOR: &str = "successor";

/// While it lives, `up` is known to run the nodes.
pub(super) struct Running(PathBuf);

impl Running {
    pub(super) fn note(plan: &Plan) -> Result<Running, Failure> {
        let path = plan.nodes[0].directory.with_file_name(UP);
        fs::write(&path, format!("{}\n", std::process::id()))
            .context(format_args!("cannot write {}", path.display()))?;
        Ok(Running(path))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The process that runs the nodes in this directory, or did before it was killed.
pub(crate) fn pid(dir: &Path) -> Option<u32> {
    fs::read_to_string(dir.join(UP)).ok()?.trim().parse().ok()
}

/// Once the node of this directory has ended well, `up` starts this program in its place.
pub(crate) fn name_successor(directory: &Path, program: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let new = directory.join(format!("{SUCCESSOR}.new"));
    fs::write(&new, program.as_os_str().as_bytes())?;
    fs::rename(new, directory.join(SUCCESSOR))
}

/// What was named, once.
pub(crate) fn take_successor(directory: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = directory.join(SUCCESSOR);
    let program = fs::read(&path).ok()?;
    fs::remove_file(path).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_taken_once() {
        let directory = std::env::temp_dir().join(format!("quorate-successor-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory of its own");
        assert_eq!(take_successor(&directory), None);
        name_successor(&directory, Path::new("/usr/bin/quorate two")).expect("written");
        assert_eq!(take_successor(&directory), Some(PathBuf::from("/usr/bin/quorate two")));
        assert_eq!(take_successor(&directory), None);
        fs::remove_dir_all(directory).expect("there");
    }
}
