//! What several messages share: the address of a leader that Produce and Fetch hint at.

use crate::protocol::declare::message;

message! {
    /// Who leads a partition now, as far as the answering broker knows.
    pub struct LeaderIdAndEpoch {
        /// The leader's broker id; -1 if it is not known.
        leader_id: i32 [0..] = -1,
        /// The epoch of that leadership; -1 if it is not known.
        leader_epoch: i32 [0..] = -1,
    }
}

message! {
    /// Where a broker named in a [`LeaderIdAndEpoch`] can be reached.
    pub struct NodeEndpoint<'a> {
        /// Its id.
        node_id: i32 [0..],
        /// Its advertised host.
        host: &'a str [0..],
        /// Its advertised port.
        port: i32 [0..],
        /// Its rack.
        rack: Option<&'a str> [0..],
    }
}
