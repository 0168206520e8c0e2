//! Which of a peer's frames have arrived: each is taken once, whatever the network does.
//!
//! A link delivers a frame once, but a peer has another link after the first is lost, and what "it was not executed"
//! means rests on nobody hearing one refusal twice.

/// Frames may overtake each other by this many. One that is later still is dropped, as if lost.
const WINDOW: u64 = 128;

#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Of which start of the peer.
    start: u32,
    newest: u64,
    /// Bit i: frame `newest - i` has arrived.
    arrived: u128,
}

impl Seen {
    /// The latest start of the peer that was heard of; 0 if none was.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Whether a later frame of the same start has arrived.
    pub fn is_overtaken(&self, start: u32, sequence: u64) -> bool {
        start == self.start && sequence < self.newest
    }

    /// Whether the frame has not arrived before; from now on it has.
    pub fn is_new(&mut self, start: u32, sequence: u64) -> bool {
        if start < self.start {
            return false;
        }
        if start > self.start {
            *self = Seen { start, newest: sequence, arrived: 1 };
            return true;
        }
        if sequence > self.newest {
            let ahead = sequence - self.newest;
            self.arrived = if ahead < WINDOW { self.arrived << ahead | 1 } else { 1 };
            self.newest = sequence;
            return true;
        }
        let behind = self.newest - sequence;
        if behind >= WINDOW || self.arrived & 1 << behind != 0 {
            return false;
        }
        self.arrived |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_taken_once_in_whatever_order() {
        let mut seen = Seen::default();
        for sequence in [5, 3, 4, 200, 199, 100] {
            assert!(seen.is_new(1, sequence), "{sequence}");
        }
        for sequence in [5, 3, 200, 100, 72] {
            assert!(!seen.is_new(1, sequence), "{sequence} has arrived, or is too late to tell");
        }
        assert!(seen.is_new(1, 73), "just within the window");
    }

    #[test]
    fn a_restarted_peer_counts_anew_and_its_old_frames_are_void() {
        let mut seen = Seen::default();
        assert!(seen.is_new(1, 50));
        assert!(seen.is_new(2, 1));
        assert!(!seen.is_new(1, 51));
    }
}
