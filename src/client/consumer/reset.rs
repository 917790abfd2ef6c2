//! Reset: where to start when there is no position, or none that the log has (ListOffsets).

use super::{Kind, ReadState, Seek};
use crate::client::client::Client;
use crate::client::config::OffsetReset;
use crate::client::in_flight::Purpose;
use crate::client::network_client::NotSent;
use crate::client::node_connections::{ConnectionKind, NodeConnectionId};
use crate::logging::Level;
use crate::net::Selectable;
use crate::net::slots::SlotId;
use crate::protocol::declare::{Array, Message};
use crate::protocol::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic,
};
use crate::protocol::{ApiKey, ArrayWriter, ErrorCode};
use crate::time::Instant;

/// Partitions of one request at most.
const MAX_PARTITIONS: usize = 512;

impl Seek {
    /// As it stands in a request.
    fn timestamp(self) -> i64 {
        match self {
            Seek::End => -1,
            Seek::Beginning => -2,
            Seek::Time(ms) => ms,
        }
    }
}

impl Client {
    /// Asks for the positions of partitions that seek one.
    pub(in crate::client) fn send_offsets<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        for i in 0..self.consumers.capacity() {
            let Some((consumer, entry)) = self.consumers.at(i) else { continue };
            let isolation_level = i8::from(entry.config.read_committed);
            for node in 0..self.cluster.used() {
                let list = self.assigned.list(consumer, node, Kind::Seek);
                let connection = self.cluster.connection_id(node, ConnectionKind::Control);
                if self.assigned.lists.is_empty(list)
                    || self.assigned.traffic(consumer, node).seeking
                    || !self.cluster.ready(net, connection, now)
                {
                    continue;
                }
                self.ask_offsets(net, consumer, connection, isolation_level, now);
            }
        }
    }

    fn ask_offsets<N: Selectable>(
        &mut self,
        net: &mut N,
        consumer: SlotId,
        connection: NodeConnectionId,
        isolation_level: i8,
        now: Instant,
    ) {
        let node = connection.node();
        let list = self.assigned.list(consumer, node, Kind::Seek);
        let Some(version) = self.cluster.version(connection, ApiKey::LIST_OFFSETS) else {
            while let Some(index) = self.assigned.lists.pop_front(list) {
                self.park(index, ErrorCode::UNSUPPORTED_VERSION.into(), -1, None);
            }
            return;
        };
        let Client { assigned, metadata, cluster, .. } = self;
        let all = || {
            let first = assigned.lists.front(list);
            core::iter::successors(first, |&index| assigned.lists.after(index))
                .take(MAX_PARTITIONS)
                .filter_map(|index| assigned.get(index))
        };
        let count = all().count();
        // A topic may stand there more than once, as partitions come in the order of their need.
        let emit = |out: &mut ArrayWriter<'_, '_, ListOffsetsTopic<'static>>| {
            for entry in all() {
                let timestamp = match entry.state {
                    ReadState::Seeking(seek) => seek.timestamp(),
                    _ => Seek::End.timestamp(),
                };
                let partition = ListOffsetsPartition {
                    partition_index: entry.partition,
                    current_leader_epoch: metadata.epoch(entry.part),
                    timestamp,
                };
                let emit = |out: &mut ArrayWriter<'_, '_, ListOffsetsPartition>| {
                    out.push(&partition);
                };
                let name = metadata.name(entry.topic).unwrap_or("");
                out.push(&ListOffsetsTopic { name, partitions: Array::emit(1, &emit) });
            }
        };
        let request = ListOffsetsRequest {
            isolation_level,
            topics: Array::emit(count, &emit),
            timeout_ms: i32::try_from(cluster.config().request_timeout.as_millis())
                .unwrap_or(i32::MAX),
            ..Default::default()
        };
        let purpose = Purpose::Offsets(consumer);
        let key = ApiKey::LIST_OFFSETS;
        let sent = cluster.send_message(net, connection, key, version, purpose, &request, now);
        match sent {
            Ok(()) => {
                let out = self.assigned.list(consumer, node, Kind::SeekSent);
                for _ in 0..count {
                    let Some(index) = self.assigned.lists.pop_front(list) else { break };
                    self.assigned.lists.push_back(out, index);
                }
                if let Some(traffic) = self.assigned.traffic_mut(consumer, node) {
                    traffic.seeking = true;
                }
            }
            Err(NotSent::Later) => self.cluster.wake_soon(now),
            Err(NotSent::Gone) => {}
            Err(NotSent::Unwritable(why)) => {
                self.log(Level::Error, format_args!("ListOffsets cannot be said: {why}"));
            }
        }
    }

    /// Takes an answer. `Err` ends the connection it came by.
    pub(in crate::client) fn on_offsets(
        &mut self,
        connection: NodeConnectionId,
        consumer: SlotId,
        body: &[u8],
        version: i16,
        now: Instant,
    ) -> Result<i32, &'static str> {
        let answer = match ListOffsetsResponse::decode(body, version) {
            Ok(answer) => answer,
            Err(bad) => {
                self.offsets_over(connection, consumer, now);
                return Err(bad.0);
            }
        };
        let out = self.assigned.list(consumer, connection.node(), Kind::SeekSent);
        for topic in answer.topics {
            let Some(id) = self.metadata.find(topic.name) else { continue };
            for partition in topic.partitions {
                let Some(index) = self.find_by_part(consumer, id, partition.partition_index) else {
                    continue;
                };
                // It may have been assigned anew since.
                if self.assigned.lists.list_of(index) == Some(out) {
                    self.assigned.lists.remove(index);
                    self.take_offset(index, &partition, connection.node(), now);
                }
            }
        }
        self.offsets_over(connection, consumer, now);
        Ok(answer.throttle_time_ms)
    }

    fn take_offset(
        &mut self,
        index: u32,
        answer: &ListOffsetsPartitionResponse,
        node: u32,
        now: Instant,
    ) {
        let code = ErrorCode(answer.error_code);
        if !code.is_ok() {
            self.partition_error(index, code, node, now);
            return;
        }
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        match assigned.state {
            // Nothing is as late as that: read what is to come.
            ReadState::Seeking(Seek::Time(_)) if answer.offset < 0 => {
                assigned.state = ReadState::Seeking(Seek::End);
            }
            ReadState::Seeking(_) if answer.offset >= 0 => {
                assigned.state = ReadState::Reading;
                assigned.position = answer.offset;
                assigned.failures = 0;
            }
            _ => {
                self.partition_error(index, ErrorCode::UNKNOWN_SERVER_ERROR, node, now);
                return;
            }
        }
        self.relink_assigned(index);
    }

    /// A request is over: partitions that it did not answer try again.
    pub(in crate::client) fn offsets_over(
        &mut self,
        connection: NodeConnectionId,
        consumer: SlotId,
        now: Instant,
    ) {
        if self.consumers.get(consumer).is_none() {
            return;
        }
        if let Some(traffic) = self.assigned.traffic_mut(consumer, connection.node()) {
            traffic.seeking = false;
        }
        let out = self.assigned.list(consumer, connection.node(), Kind::SeekSent);
        while let Some(index) = self.assigned.lists.pop_front(out) {
            self.back_off_assigned(index, now);
        }
    }

    /// The log does not have the position: `auto.offset.reset` says where to go on.
    pub(super) fn out_of_range(&mut self, index: u32, node: u32, now: Instant) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let Some(consumer) = self.consumers.get(assigned.consumer) else { return };
        let position = assigned.position;
        let seek = match consumer.config.reset {
            OffsetReset::Latest => Seek::End,
            OffsetReset::Earliest => Seek::Beginning,
            OffsetReset::None => {
                self.park(index, ErrorCode::OFFSET_OUT_OF_RANGE.into(), position, Some(node));
                return;
            }
        };
        assigned.state = ReadState::Seeking(seek);
        assigned.position = -1;
        // A broker that refuses the position it has just given must not be asked without a pause.
        assigned.failures = assigned.resets;
        assigned.resets = assigned.resets.saturating_add(1);
        let again = assigned.failures > 0;
        let (topic, partition) = (assigned.topic, assigned.partition);
        let name = self.metadata.name(topic).unwrap_or("");
        self.log(
            Level::Warn,
            format_args!(
                "{name}-{partition}: offset {position} is out of range, going on at {seek}"
            ),
        );
        if again {
            self.back_off_assigned(index, now);
        } else {
            self.relink_assigned(index);
        }
    }
}
