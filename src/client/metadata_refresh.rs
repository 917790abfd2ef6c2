//! MetadataRefresh: when to ask again, and what happens to the answer.

use super::client::Client;
use super::config::ClientConfig;
use super::events::Source;
use super::in_flight::Purpose;
use super::metadata::TopicState;
use super::network_client::NotSent;
use super::node_connections::NodeConnectionId;
use super::nodes::Choice;
use super::random::Random;
use crate::logging::Level;
use crate::net::Selectable;
use crate::protocol::declare::{Array, Message};
use crate::protocol::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use crate::protocol::{ApiKey, ArrayWriter, ErrorCode};
use crate::time::Instant;

/// When metadata is due.
#[derive(Debug)]
pub(super) struct MetadataRefresh {
    /// Somebody saw that the picture is wrong.
    needed: bool,
    /// There are names that were never asked for.
    fresh: bool,
    in_flight: bool,
    /// When the last answer was used; `None` before the first.
    updated: Option<Instant>,
    /// Answers without news and failures in a row.
    attempts: u32,
    /// Not before then, even if it is needed.
    not_before: Instant,
    /// Since when it has been due without a good answer.
    due_since: Option<Instant>,
    random: Random,
}

impl MetadataRefresh {
    pub(super) fn new(seed: u64) -> Self {
        MetadataRefresh {
            needed: true,
            fresh: false,
            in_flight: false,
            updated: None,
            attempts: 0,
            not_before: Instant::from_nanos(0),
            due_since: None,
            random: Random::new(seed),
        }
    }

    /// The picture is wrong: ask again, when the backoff allows.
    pub(super) fn need(&mut self) {
        self.needed = true;
    }

    /// There is a name that was never asked for: ask at once.
    pub(super) fn need_fresh(&mut self) {
        self.fresh = true;
        self.attempts = 0;
        self.not_before = Instant::from_nanos(0);
    }

    /// When the next request is due.
    pub(super) fn due_at(&self, config: &ClientConfig) -> Instant {
        if self.needed || self.fresh {
            return self.not_before;
        }
        let age = self.updated.map_or(Instant::FAR, |at| at.after(config.metadata_max_age));
        age.max(self.not_before)
    }

    fn full(&self, config: &ClientConfig, now: Instant) -> bool {
        let old = self.updated.is_none_or(|at| at.after(config.metadata_max_age) <= now);
        self.needed || old
    }

    /// The request failed, or there was no connection for it.
    pub(super) fn failed(&mut self, config: &ClientConfig, now: Instant) {
        self.in_flight = false;
        self.needed = true;
        self.back_off(config, now);
    }

    fn back_off(&mut self, config: &ClientConfig, now: Instant) {
        self.not_before = now.after(config.retry.delay(self.attempts, &mut self.random));
        self.attempts = self.attempts.saturating_add(1);
    }

    fn succeeded(&mut self, news: bool, config: &ClientConfig, now: Instant) {
        self.in_flight = false;
        self.updated = Some(now);
        self.due_since = None;
        // Answers that bring nothing new slow the asking down, as failures do.
        if news {
            self.attempts = 0;
        }
        self.back_off(config, now);
    }
}

impl Client {
    /// Asks for metadata if it is due and somebody can be asked.
    pub(super) fn refresh_metadata<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        let due = self.refresh.due_at(self.cluster.config());
        if self.refresh.in_flight {
            return;
        }
        if due > now {
            if due < Instant::FAR {
                self.cluster.wake_at(due);
            }
            return;
        }
        let since = *self.refresh.due_since.get_or_insert(now);
        let patience = self.cluster.config().rebootstrap_after;
        // KIP-1102: nobody gave a good answer for too long, whatever their connections look like.
        if self.cluster.config().rebootstrap && now.since(since) > patience {
            self.log(Level::Warn, format_args!("no metadata for {patience:?}: bootstrap again"));
            self.refresh.due_since = Some(now);
            self.cluster.seed();
        }
        match self.cluster.least_loaded(net, now) {
            Choice::Ready(connection) => self.ask_metadata(net, connection, now),
            Choice::Wait => {}
            Choice::Backoff(at) => self.cluster.wake_at(at),
        }
    }

    fn ask_metadata<N: Selectable>(
        &mut self,
        net: &mut N,
        connection: NodeConnectionId,
        now: Instant,
    ) {
        let Some(version) = self.cluster.version(connection, ApiKey::METADATA) else {
            self.log(Level::Error, format_args!("the broker serves no version of Metadata"));
            self.refresh.failed(self.cluster.config(), now);
            return;
        };
        let fresh_only = !self.refresh.full(self.cluster.config(), now);
        let (all, fresh) = self.metadata.asked();
        let metadata = &self.metadata;
        let emit = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
            for name in metadata.names(fresh_only) {
                out.push(&MetadataRequestTopic { name: Some(name), ..Default::default() });
            }
        };
        let request = MetadataRequest {
            topics: Some(Array::emit(if fresh_only { fresh } else { all }, &emit)),
            allow_auto_topic_creation: self.cluster.config().auto_create_topics,
            ..Default::default()
        };
        let key = ApiKey::METADATA;
        let sent = self.cluster.send_message(
            net,
            connection,
            key,
            version,
            Purpose::Metadata,
            &request,
            now,
        );
        match sent {
            Ok(()) => {
                self.metadata.set_asked();
                self.refresh.in_flight = true;
                self.refresh.fresh = false;
                self.refresh.needed &= fresh_only;
            }
            Err(NotSent::Later) => self.cluster.wake_soon(now),
            Err(NotSent::Gone) => {}
            Err(NotSent::Unwritable(why)) => {
                self.log(Level::Error, format_args!("Metadata cannot be said: {why}"));
                self.refresh.failed(self.cluster.config(), now);
            }
        }
    }

    /// Takes an answer over. `Err` ends the connection it came by.
    pub(super) fn on_metadata(
        &mut self,
        body: &[u8],
        version: i16,
        now: Instant,
    ) -> Result<i32, &'static str> {
        let answer = match MetadataResponse::decode(body, version) {
            Ok(answer) => answer,
            Err(bad) => {
                self.refresh.failed(self.cluster.config(), now);
                return Err(bad.0);
            }
        };
        if answer.error_code == ErrorCode::REBOOTSTRAP_REQUIRED.0 {
            self.cluster.seed();
        }
        // A broker that starts up knows no broker, not even itself: the old picture is better.
        if answer.error_code != 0 || answer.brokers.is_empty() {
            self.refresh.failed(self.cluster.config(), now);
            return Ok(answer.throttle_time_ms);
        }
        self.metadata.begin_update();
        self.cluster.begin_listing();
        for broker in answer.brokers {
            self.cluster.list(broker.node_id, broker.host, broker.port);
        }
        let Client { cluster, metadata, .. } = self;
        metadata.forget_nodes(|node| cluster.is_listed(node));
        for topic in answer.topics {
            let epochs = version >= 9;
            let Some(id) =
                self.metadata.update(&topic, epochs, |node| self.cluster.find(node), now)
            else {
                continue;
            };
            if let Some(TopicState::Refused(code)) = self.metadata.state(id) {
                let name = topic.name.unwrap_or("");
                self.log(Level::Warn, format_args!("topic {name}: {code}"));
            }
        }
        let news = self.metadata.had_news();
        self.refresh.succeeded(news, self.cluster.config(), now);
        if self.metadata.has_unknown() {
            self.refresh.need();
        }
        self.stats.metadata_updates += 1;
        self.metadata_changed(now);
        Ok(answer.throttle_time_ms)
    }

    /// Metadata came: whoever waited for it goes on.
    pub(super) fn metadata_changed(&mut self, now: Instant) {
        if !self.ready {
            self.ready = true;
            self.events.push(Source::Ready);
        }
        self.leaders_changed();
        self.tell_topics_known();
        self.bind_assigned(now);
    }

    /// Partitions whose leader changed move to its lists.
    pub(super) fn leaders_changed(&mut self) {
        while let Some(part) = self.metadata.pop_changed() {
            self.leader_changed_for_producers(part);
            self.leader_changed_for_consumers(part);
        }
        self.wants_turn = true;
    }
}
