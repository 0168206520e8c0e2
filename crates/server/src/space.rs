//! Whether there is space where a node keeps its data.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the log asks for at a time, and what the checkpoint store may take for a merge.
const ROOM_BYTES: u64 = 64 << 20;

/// Whether the file system of this directory has room to go on with, as far as it says: it knows nothing of the quota of a
/// user.
pub(crate) fn has_room(directory: &Path) -> bool {
    // Where the system cannot say it, a lack of space is not what is wrong.
    free_bytes(directory).is_none_or(|free| free >= ROOM_BYTES)
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other systems")]
fn free_bytes(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends with a zero, and the call writes into the statvfs that it is given.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    Some((found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_says_nothing_of_space() {
        assert!(has_room(Path::new("/nonexistent")));
        assert!(free_bytes(&std::env::temp_dir()).is_some());
    }
}
