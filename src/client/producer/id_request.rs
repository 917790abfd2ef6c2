//! InitProducerId: an idempotent producer's first need, and its need again when its epochs are used
//! up.

use super::sequence::{Identity, ProducerId};
use crate::client::client::Client;
use crate::client::in_flight::Purpose;
use crate::client::network_client::NotSent;
use crate::client::node_connections::NodeConnectionId;
use crate::client::nodes::Choice;
use crate::error::Error;
use crate::logging::Level;
use crate::net::Selectable;
use crate::net::slots::SlotId;
use crate::protocol::declare::Message;
use crate::protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use crate::protocol::{ApiKey, ErrorCode};
use crate::time::Instant;

impl Client {
    /// Asks for a producer's id, if it lacks one and has batches that wait for it.
    pub(super) fn ask_producer_id<N: Selectable>(
        &mut self,
        net: &mut N,
        producer: SlotId,
        now: Instant,
    ) {
        let Some(p) = self.producers.get(producer) else { return };
        let Identity::Missing(from) = p.identity else { return };
        if p.unfinished == 0 {
            return;
        }
        if from > now {
            self.cluster.wake_at(from);
            return;
        }
        match self.cluster.least_loaded(net, now) {
            Choice::Ready(connection) => self.send_id_request(net, producer, connection, now),
            Choice::Wait => {}
            Choice::Backoff(at) => self.cluster.wake_at(at),
        }
    }

    fn send_id_request<N: Selectable>(
        &mut self,
        net: &mut N,
        producer: SlotId,
        connection: NodeConnectionId,
        now: Instant,
    ) {
        let key = ApiKey::INIT_PRODUCER_ID;
        let Some(version) = self.cluster.version(connection, key) else {
            self.fail_producer(producer, Error::Unsupported("the broker gives no producer ids"));
            return;
        };
        let request = InitProducerIdRequest {
            // Nothing to time out without a transaction.
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        };
        let purpose = Purpose::ProducerId(producer);
        let sent = self.cluster.send_message(net, connection, key, version, purpose, &request, now);
        match sent {
            Ok(()) => {
                if let Some(p) = self.producers.get_mut(producer) {
                    p.identity = Identity::Asked;
                }
            }
            Err(NotSent::Later) => self.cluster.wake_soon(now),
            Err(NotSent::Gone) => {}
            Err(NotSent::Unwritable(why)) => self.fail_producer(producer, Error::Bug(why)),
        }
    }

    /// Takes the answer. `Err` ends the connection it came by.
    pub(in crate::client) fn on_producer_id(
        &mut self,
        producer: SlotId,
        body: &[u8],
        version: i16,
        now: Instant,
    ) -> Result<i32, &'static str> {
        let answer = match InitProducerIdResponse::decode(body, version) {
            Ok(answer) => answer,
            Err(bad) => {
                self.producer_id_failed(producer, now);
                return Err(bad.0);
            }
        };
        let throttle = answer.throttle_time_ms;
        let code = ErrorCode(answer.error_code);
        if code.is_ok() && (answer.producer_id < 0 || answer.producer_epoch < 0) {
            self.producer_id_failed(producer, now);
            return Err("a producer id that is none");
        }
        if code.is_ok() {
            let id = ProducerId { id: answer.producer_id, epoch: answer.producer_epoch };
            if let Some(p) = self.producers.get_mut(producer) {
                p.identity = Identity::Has(id);
                p.id_failures = 0;
            }
            self.relink_all(producer);
        } else if code.is_retriable() {
            self.producer_id_failed(producer, now);
        } else if code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED {
            // What is batched fails; a later try may be permitted.
            self.log(Level::Warn, format_args!("no producer id: {code}"));
            self.producer_id_failed(producer, now);
            self.fail_batches(producer, code.into());
        } else {
            self.fail_producer(producer, code.into());
        }
        Ok(throttle)
    }

    /// The request was lost, or refused for now.
    pub(in crate::client) fn producer_id_failed(&mut self, producer: SlotId, now: Instant) {
        let retry = self.cluster.config().retry;
        let Some(p) = self.producers.get_mut(producer) else { return };
        let wait = retry.delay(p.id_failures, &mut p.random);
        p.id_failures = p.id_failures.saturating_add(1);
        p.identity = Identity::Missing(now.after(wait));
    }

    /// Every partition of a producer that has batches is looked at again.
    fn relink_all(&mut self, producer: SlotId) {
        for index in 0..self.batches.slots.capacity() as u32 {
            let Some(batch) = self.batches.get(index) else { continue };
            if batch.producer == producer {
                self.relink(producer, batch.part);
            }
        }
    }
}
