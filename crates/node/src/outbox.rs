//! What waits to be sent: one lane a peer, and in it what may leave at once and what waits for the disk.

use std::collections::VecDeque;

use quorate_protocol::NodeId;
use quorate_wal::Lsn;

use crate::frame::{Header, Message, encode_frame, whole_messages};

/// A lane that nobody empties takes no more than this: what is lost is sent again by who misses it.
pub const LANE_BYTES_MAX: usize = 64 << 20;
/// A lane's messages travel in frames of about this size at most, far below what a peer refuses.
const FRAME_BYTES: usize = 16 << 20;
/// With more than this in its lane, a node is answered no reads: they can be asked again, at no cost but time.
pub const CONGESTED_BYTES: usize = 16 << 20;
/// An emptied buffer larger than this is given back.
const KEPT_BYTES_MAX: usize = 1 << 20;
const SPARE_COUNT_MAX: usize = 16;

/// Who takes frames to other nodes.
pub trait Carrier {
    /// Whether frames for this node should be made now. What is not taken waits, up to a limit.
    fn can_take(&self, _to: NodeId) -> bool {
        true
    }

    fn carry(&mut self, to: NodeId, frame: &[u8]);
}

impl<F: FnMut(NodeId, &[u8])> Carrier for F {
    fn carry(&mut self, to: NodeId, frame: &[u8]) {
        self(to, frame);
    }
}

#[derive(Default)]
pub struct Outbox {
    lanes: Vec<Lane>,
    spare: Vec<Vec<u8>>,
    /// Messages that a full lane did not take.
    pub dropped_count: u64,
    /// Frames made since the start: each has a number of its own.
    frames_sent: u64,
}

struct Lane {
    node: NodeId,
    /// Encoded messages, not yet framed.
    now: Vec<u8>,
    /// Encoded messages by the flush that they wait for, oldest first.
    held: VecDeque<(Lsn, Vec<u8>)>,
}

impl Lane {
    fn held_bytes(&self) -> usize {
        self.held.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl Outbox {
    pub fn add(&mut self, node: NodeId) {
        if !self.lanes.iter().any(|lane| lane.node == node) {
            self.lanes.push(Lane { node, now: Vec::new(), held: VecDeque::new() });
        }
    }

    /// What waits for the node is lost, and so is what it is sent from now on.
    pub fn remove(&mut self, node: NodeId) {
        self.lanes.retain(|lane| lane.node != node);
    }

    /// Where to append a message for `node` that may leave now. `None` for nodes that there are not, and full lanes.
    pub fn lane(&mut self, node: NodeId) -> Option<&mut Vec<u8>> {
        let lane = self.lanes.iter_mut().find(|lane| lane.node == node)?;
        if lane.now.len() > LANE_BYTES_MAX {
            self.dropped_count += 1;
            return None;
        }
        Some(&mut lane.now)
    }

    /// Whether so much waits for the node that it should be told nothing that can wait.
    pub fn is_congested(&self, node: NodeId) -> bool {
        self.lanes.iter().any(|lane| lane.node == node && lane.now.len() > CONGESTED_BYTES)
    }

    pub fn send(&mut self, node: NodeId, message: &Message<'_>) {
        if let Some(lane) = self.lane(node) {
            message.encode(lane);
        }
    }

    /// Where to append a message that waits until the log is durable up to `lsn`. `None` as for [`Outbox::lane`].
    pub fn lane_once_durable(&mut self, node: NodeId, lsn: Lsn) -> Option<&mut Vec<u8>> {
        let lane = self.lanes.iter_mut().find(|lane| lane.node == node)?;
        if lane.held_bytes() > LANE_BYTES_MAX {
            self.dropped_count += 1;
            return None;
        }
        if lane.held.back().is_none_or(|(last, _)| *last != lsn) {
            lane.held.push_back((lsn, self.spare.pop().unwrap_or_default()));
        }
        lane.held.back_mut().map(|(_, bytes)| bytes)
    }

    pub fn release(&mut self, durable: Lsn) {
        for lane in &mut self.lanes {
            while lane.held.front().is_some_and(|(lsn, _)| *lsn <= durable) {
                let Some((_, mut bytes)) = lane.held.pop_front() else { break };
                if lane.now.len() > LANE_BYTES_MAX {
                    self.dropped_count += 1;
                } else {
                    lane.now.append(&mut bytes);
                }
                keep(&mut self.spare, bytes);
            }
        }
    }

    /// Frames what may leave, and hands each frame to the carrier.
    pub fn take_frames(&mut self, header: &Header, carrier: &mut impl Carrier) {
        let mut frame = self.spare.pop().unwrap_or_default();
        for lane in &mut self.lanes {
            if !carrier.can_take(lane.node) {
                continue;
            }
            let mut rest = &lane.now[..];
            while !rest.is_empty() {
                let (messages, more) = rest.split_at(whole_messages(rest, FRAME_BYTES));
                self.frames_sent += 1;
                frame.clear();
                encode_frame(&Header { sequence: self.frames_sent, ..*header }, messages, &mut frame);
                carrier.carry(lane.node, &frame);
                rest = more;
            }
            lane.now.clear();
            lane.now.shrink_to(KEPT_BYTES_MAX);
        }
        keep(&mut self.spare, frame);
    }
}

fn keep(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if spare.len() < SPARE_COUNT_MAX && buffer.capacity() <= KEPT_BYTES_MAX {
        buffer.clear();
        spare.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{decode_frame, messages};
    use quorate_protocol::Stamp;

    fn nonces(outbox: &mut Outbox) -> Vec<u64> {
        let header = Header { node: NodeId(1), start: 1, sequence: 0, stamp: Stamp(1), wall: Stamp(1), directory: 1 };
        let mut nonces = Vec::new();
        outbox.take_frames(&header, &mut |_, frame: &[u8]| {
            for message in messages(decode_frame(frame).unwrap().1) {
                let Ok(Message::StatusQuestion { nonce }) = message else { panic!("{message:?}") };
                nonces.push(nonce);
            }
        });
        nonces
    }

    #[test]
    fn a_long_lane_travels_in_several_frames_with_numbers_of_their_own() {
        let mut outbox = Outbox::default();
        outbox.add(NodeId(2));
        let bytes = vec![7; FRAME_BYTES / 2];
        for nonce in 0..5 {
            outbox.send(NodeId(2), &Message::StatusAnswer { nonce, bytes: &bytes });
        }
        let header = Header { node: NodeId(1), start: 1, sequence: 0, stamp: Stamp(1), wall: Stamp(1), directory: 1 };
        let mut received = Vec::new();
        outbox.take_frames(&header, &mut |_, frame: &[u8]| {
            assert!(frame.len() <= FRAME_BYTES + 100, "{}", frame.len());
            let (header, bytes) = decode_frame(frame).unwrap();
            received.push((header.sequence, messages(bytes).count()));
        });
        assert_eq!(received.iter().map(|(_, count)| count).sum::<usize>(), 5);
        assert!(received.windows(2).all(|pair| pair[0].0 < pair[1].0), "{received:?}");
    }

    fn send_once_durable(outbox: &mut Outbox, node: NodeId, lsn: Lsn, message: &Message<'_>) {
        if let Some(lane) = outbox.lane_once_durable(node, lsn) {
            message.encode(lane);
        }
    }

    #[test]
    fn what_waits_for_the_disk_does_not_hold_up_what_does_not() {
        let mut outbox = Outbox::default();
        outbox.add(NodeId(2));
        send_once_durable(&mut outbox, NodeId(2), Lsn(5), &Message::StatusQuestion { nonce: 1 });
        send_once_durable(&mut outbox, NodeId(2), Lsn(6), &Message::StatusQuestion { nonce: 2 });
        outbox.send(NodeId(2), &Message::StatusQuestion { nonce: 3 });
        assert_eq!(nonces(&mut outbox), [3]);
        outbox.release(Lsn(5));
        assert_eq!(nonces(&mut outbox), [1]);
        outbox.release(Lsn(9));
        assert_eq!(nonces(&mut outbox), [2]);
    }

    struct AllBut {
        stalled: NodeId,
        taken: usize,
    }

    impl Carrier for AllBut {
        fn can_take(&self, to: NodeId) -> bool {
            to != self.stalled
        }

        fn carry(&mut self, to: NodeId, frame: &[u8]) {
            assert_ne!(to, self.stalled);
            self.taken += frame.len();
        }
    }

    #[test]
    fn a_node_that_takes_nothing_holds_up_nobody_and_costs_no_more_than_its_lane() {
        let (stalled, other) = (NodeId(2), NodeId(3));
        let mut outbox = Outbox::default();
        [stalled, other].into_iter().for_each(|node| outbox.add(node));
        let header = Header { node: NodeId(1), start: 1, sequence: 0, stamp: Stamp(1), wall: Stamp(1), directory: 1 };
        let bytes = vec![7; 1 << 20];
        let mut carrier = AllBut { stalled, taken: 0 };
        for nonce in 0..200 {
            for node in [stalled, other] {
                outbox.send(node, &Message::StatusAnswer { nonce, bytes: &bytes });
                send_once_durable(&mut outbox, node, Lsn(nonce), &Message::StatusAnswer { nonce, bytes: &bytes });
            }
            outbox.release(Lsn(nonce.saturating_sub(100)));
            outbox.take_frames(&header, &mut carrier);
            let waiting = outbox.lanes[0].now.len() + outbox.lanes[0].held_bytes();
            assert!(waiting <= 2 * LANE_BYTES_MAX + (4 << 20), "{waiting} bytes wait");
        }
        assert!(outbox.is_congested(stalled) && !outbox.is_congested(other));
        assert!(carrier.taken > 200 << 20, "{}", carrier.taken);
        assert!(outbox.dropped_count > 0);
        outbox.release(Lsn(1000));
        assert!(outbox.lanes[0].now.len() <= 2 * LANE_BYTES_MAX);
        outbox.take_frames(&header, &mut |_, _: &[u8]| {});
        assert!(!outbox.is_congested(stalled));
        assert!(outbox.lanes[0].now.capacity() <= KEPT_BYTES_MAX);
    }
}
