//! A file system in a file, whose power can be cut.
//!
//! The ioctl `EXT4_IOC_SHUTDOWN` with `NOLOGFLUSH` makes ext4 fail everything from now on and forget what was not
//! synced, its journal's buffers included: what is found when it is mounted again is what a power cut would have left.
//! It needs root, a loop device, and ext4 tools.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{Failure, call};

/// `_IOR('X', 125, __u32)` and the mode without a flush of the journal.
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
static NOLOGFLUSH: u32 = 2;
/// A process that was killed may hold its files a moment longer.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// A mounted image in a directory of its own; all of it goes with the value.
pub(crate) struct DiskImage {
    directory: PathBuf,
    is_mounted: bool,
}

impl DiskImage {
    /// Makes an empty file system of `bytes` bytes, of which the host's disk gives only what is used.
    pub(crate) fn make(directory: &Path, bytes: u64) -> Result<DiskImage, Failure> {
        std::fs::create_dir_all(directory.join("mnt"))
            .map_err(|error| format!("cannot make {directory:?}: {error}"))?;
        let mut image = DiskImage { directory: directory.to_owned(), is_mounted: false };
        let file = File::create(image.file()).and_then(|file| file.set_len(bytes));
        file.map_err(|error| format!("cannot make {}: {error}", image.file().display()))?;
        call(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image.file()))?;
        image.mount()?;
        Ok(image)
    }

    /// Where it is mounted.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.join("mnt")
    }

    pub(crate) fn mount(&mut self) -> Result<(), Failure> {
        let mut outcome = Err(String::new());
        for _ in 0..ATTEMPTS {
            call(Command::new("mount").args(["-o", "loop"]).arg(self.file()).arg(self.root()))?;
            self.is_mounted = true;
            // Somebody's mount namespace may still hold on to what was shut down; then that is what is mounted again.
            outcome = File::create(self.root().join("probe")).map_err(|error| format!("the mounted image: {error}"));
            if outcome.is_ok() {
                break;
            }
            self.unmount()?;
            thread::sleep(PAUSE);
        }
        outcome.map(|_| ())
    }

    /// The power goes.
    pub(crate) fn cut(&self) -> Result<(), Failure> {
        let root =
            OpenOptions::new().read(true).open(self.root()).map_err(|error| format!("cannot open it: {error}"))?;
        // SAFETY: the request reads the u32 that it is given.
        let outcome = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN as _, &raw const NOLOGFLUSH) };
        match outcome {
            0 => Ok(()),
            _ => Err(format!("EXT4_IOC_SHUTDOWN failed: {}", io::Error::last_os_error())),
        }
    }

    pub(crate) fn unmount(&mut self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = call(Command::new("umount").arg(self.root())).map(|_| ());
            if outcome.is_ok() {
                self.is_mounted = false;
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        outcome
    }

    fn file(&self) -> PathBuf {
        self.directory.join("image")
    }
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        if self.is_mounted
            && let Err(failure) = self.unmount()
        {
            eprintln!("{} is still mounted: {failure}", self.root().display());
            return;
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
