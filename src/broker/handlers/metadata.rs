//! Metadata: this broker, and the topics that were asked for. A topic that is not there may be
//! created at once, where Kafka creates it in the background and lets the client ask again: many
//! programs that want an embedded broker count on it.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::log::LEADER_EPOCH;
use crate::broker::request::{Done, Outcome, Request, Stop};
use crate::broker::scratch::{Described, Scratch};
use crate::broker::topics::{Refused, Topic, is_valid_name};
use crate::logging::Level;
use crate::protocol::messages::{
    MetadataBroker, MetadataPartition, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    MetadataTopic,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode};
use core::fmt::Write;
use std::net::SocketAddr;

/// The first version that asks by id (KIP-516); the two before it carry an id in vain.
const BY_ID: i16 = 12;

/// Tells of brokers and topics.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: MetadataRequest<'_> = request.decode()?;
    let asked = body.topics.filter(|topics| request.version() > 0 || !topics.is_empty());
    let places = &mut scratch.topics;
    let len = match asked {
        None => list_all(core, places),
        Some(topics) => {
            if topics.len() > places.len() {
                return Err(Stop::Close("more topics asked for than the broker can have"));
            }
            scratch.met.begin();
            for (place, topic) in places.iter_mut().zip(topics) {
                *place = Some(describe(core, &body, request.version(), &topic));
            }
            // A topic is told of once, however often it is asked for.
            for place in places.iter_mut().take(topics.len()) {
                if let Some(Described::Topic(topic)) = place
                    && let Some(first) = topic.partitions.first()
                    && scratch.met.again(first.index)
                {
                    *place = Some(Described::Again);
                }
            }
            topics.len()
        }
    };
    let places = places.get_mut(..len).unwrap_or_default();
    let written = write(core, places, asked, request, answer);
    places.iter_mut().for_each(|place| *place = None);
    written
}

fn list_all(core: &Core, places: &mut [Option<Described>]) -> usize {
    let mut len = 0;
    let mut at = 0;
    while let Some(topic) = core.topics.at(at) {
        at += 1;
        if let Some(topic) = topic
            && let Some(place) = places.get_mut(len)
        {
            *place = Some(Described::Topic(topic));
            len += 1;
        }
    }
    len
}

fn describe(
    core: &Core,
    body: &MetadataRequest<'_>,
    version: i16,
    topic: &MetadataRequestTopic<'_>,
) -> Described {
    if topic.topic_id != [0; 16] || topic.name.is_none() {
        if version < BY_ID {
            return Described::Error(ErrorCode::INVALID_REQUEST);
        }
        let found = core.topics.by_id(&topic.topic_id);
        let unknown = Described::Error(ErrorCode::UNKNOWN_TOPIC_ID);
        return found.map_or(unknown, Described::Topic);
    }
    let name = topic.name.unwrap_or("");
    if let Some(topic) = core.topics.by_name(name) {
        return Described::Topic(topic);
    }
    // Below v4 the field is missing and reads as its default, which is true.
    if !core.settings.auto_create_topics || !body.allow_auto_topic_creation {
        let valid = is_valid_name(name);
        let invalid = ErrorCode::INVALID_TOPIC_EXCEPTION;
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        return Described::Error(if valid { unknown } else { invalid });
    }
    create(core, name)
}

fn create(core: &Core, name: &str) -> Described {
    let partitions = core.settings.num_partitions as usize;
    let config = core.settings.topic;
    match core.topics.create(name, partitions, config, &core.random, &core.memory) {
        Ok(topic) => Described::Topic(topic),
        Err(Refused::Exists) => {
            let unknown = Described::Error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            core.topics.by_name(name).map_or(unknown, Described::Topic)
        }
        Err(Refused::Name | Refused::Collides) => {
            Described::Error(ErrorCode::INVALID_TOPIC_EXCEPTION)
        }
        Err(Refused::Full) => {
            let limit = format_args!("topic {name} is not created: the broker is full");
            core.logger.line(Level::Warn, limit);
            Described::Error(ErrorCode::POLICY_VIOLATION)
        }
    }
}

/// The host part of an address as text.
struct Host {
    text: [u8; 48],
    len: usize,
}

impl Host {
    fn of(address: Option<SocketAddr>) -> Host {
        let mut host = Host { text: [0; 48], len: 0 };
        // Without an address (a socket pair) there is nothing true to say; clients want a text.
        let written = match address {
            Some(address) => write!(host, "{}", address.ip().to_canonical()),
            None => write!(host, "localhost"),
        };
        debug_assert!(written.is_ok(), "an address longer than addresses are");
        host
    }

    fn text(&self) -> &str {
        let text = self.text.get(..self.len).unwrap_or(&[]);
        core::str::from_utf8(text).unwrap_or("localhost")
    }
}

impl Write for Host {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let place = self.text.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

fn write(
    core: &Core,
    places: &[Option<Described>],
    asked: Option<Array<'_, MetadataRequestTopic<'static>>>,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let node_id = core.settings.node_id;
    let advertised = core.advertised();
    let local = if advertised.is_none() { answer.local() } else { None };
    let host = Host::of(local);
    let (host, port) = match &advertised {
        Some(advertised) => (&*advertised.host, advertised.port),
        None => (host.text(), local.map_or(0, |address| address.port())),
    };
    let broker = |out: &mut ArrayWriter<'_, '_, MetadataBroker<'static>>| {
        let rack = core.settings.rack.as_deref();
        out.push(&MetadataBroker { node_id, host, port: i32::from(port), rack });
    };
    let topics = |out: &mut ArrayWriter<'_, '_, MetadataTopic<'static>>| {
        let mut asked = asked.into_iter().flatten();
        for place in places {
            let asked = asked.next();
            match place {
                Some(Described::Topic(topic)) => push_topic(out, topic, node_id),
                Some(Described::Error(error)) => push_error(out, asked, *error, request.version()),
                Some(Described::Again) | None => {}
            }
        }
    };
    let told = |place: &&Option<Described>| !matches!(place, Some(Described::Again) | None);
    let response = MetadataResponse {
        brokers: Array::emit(1, &broker),
        cluster_id: Some(&core.settings.cluster_id),
        // Clients send there what creates and deletes topics.
        controller_id: node_id,
        topics: Array::emit(places.iter().filter(told).count(), &topics),
        ..Default::default()
    };
    answer.message(&response)?;
    Ok(Done::Answered)
}

fn push_topic(out: &mut ArrayWriter<'_, '_, MetadataTopic<'static>>, topic: &Topic, node_id: i32) {
    let node = |out: &mut ArrayWriter<'_, '_, i32>| out.push(&node_id);
    let nodes = Array::emit(1, &node);
    let partitions = |out: &mut ArrayWriter<'_, '_, MetadataPartition<'static>>| {
        for partition in &topic.partitions {
            out.push(&MetadataPartition {
                partition_index: partition.number,
                leader_id: node_id,
                leader_epoch: LEADER_EPOCH,
                replica_nodes: nodes,
                isr_nodes: nodes,
                ..Default::default()
            });
        }
    };
    out.push(&MetadataTopic {
        name: Some(&topic.name),
        topic_id: topic.id,
        partitions: Array::emit(topic.partitions.len(), &partitions),
        ..Default::default()
    });
}

fn push_error(
    out: &mut ArrayWriter<'_, '_, MetadataTopic<'static>>,
    asked: Option<MetadataRequestTopic<'_>>,
    error: ErrorCode,
    version: i16,
) {
    let asked = asked.unwrap_or_default();
    // Null is a name from v12 on only.
    let name = asked.name.or((version < BY_ID).then_some(""));
    let (error_code, topic_id) = (error.0, asked.topic_id);
    out.push(&MetadataTopic { error_code, name, topic_id, ..Default::default() });
}
