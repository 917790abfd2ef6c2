//! The first request on a connection: what does the broker speak? (KIP-35, KIP-511)
//!
//! It is asked in the highest version that kloop has. A broker that does not know it answers error
//! 35 in the form of version 0, and is asked once more: in the version it names, or in 0.

use super::in_flight::Purpose;
use super::network_client::{NetworkClient, NotSent};
use super::node_connections::NodeConnectionId;
use super::node_state::ConnectionState;
use super::node_versions::spoken;
use crate::logging::Level;
use crate::net::{ConnId, Selectable};
use crate::protocol::declare::Message;
use crate::protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::{ApiKey, ErrorCode};
use crate::time::Instant;

impl NetworkClient {
    /// The socket is connected: the broker is asked what it speaks, in the highest version first.
    pub(super) fn connected<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        conn: ConnId,
        now: Instant,
    ) {
        self.win(net, id, conn);
        let Some(connection) = self.connection_mut(id) else { return };
        if connection.state != ConnectionState::Connecting || connection.conn != Some(conn) {
            return;
        }
        connection.state = ConnectionState::CheckingVersions;
        connection.health.connected();
        connection.ask = Some(spoken(ApiKey::API_VERSIONS).map_or(0, |range| *range.end()));
        connection.fell_back = false;
        self.unasked += 1;
        self.stats.connections += 1;
        self.timers.clear(id.index());
        self.ask(net, id, now);
    }

    /// Asks on all connections that could not ask when they were connected.
    pub(super) fn ask_all<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        if self.unasked == 0 {
            return;
        }
        for connection in 0..self.used_connections().len() {
            self.ask(net, NodeConnectionId::at(connection, self.per_node), now);
        }
    }

    fn ask<N: Selectable>(&mut self, net: &mut N, id: NodeConnectionId, now: Instant) {
        let Some(version) = self.connection(id).and_then(|connection| connection.ask) else {
            return;
        };
        let request = ApiVersionsRequest {
            client_software_name: "kloop",
            client_software_version: env!("CARGO_PKG_VERSION"),
        };
        let sent = self.send_message(
            net,
            id,
            ApiKey::API_VERSIONS,
            version,
            Purpose::ApiVersions,
            &request,
            now,
        );
        match sent {
            Ok(()) | Err(NotSent::Gone) => {
                if let Some(connection) = self.connection_mut(id) {
                    connection.ask = None;
                }
                self.unasked -= 1;
            }
            Err(NotSent::Later) => self.wake_soon(now),
            Err(NotSent::Unwritable(why)) => {
                self.logger.line(Level::Error, format_args!("ApiVersions cannot be said: {why}"));
            }
        }
    }

    /// Takes the broker's answer to what it speaks. `Err` ends the connection.
    pub(super) fn learn<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        body: &[u8],
        version: i16,
        now: Instant,
    ) -> Result<(), &'static str> {
        // A broker that does not know the version answers error 35 in version 0 (KIP-511).
        let answer = match ApiVersionsResponse::decode(body, version) {
            Ok(answer) => answer,
            Err(_) => match ApiVersionsResponse::decode(body, 0) {
                Ok(answer) if answer.error_code == ErrorCode::UNSUPPORTED_VERSION.0 => answer,
                _ => return Err("an answer to ApiVersions that is none"),
            },
        };
        let Some(connection) = self.connection_mut(id) else { return Ok(()) };
        if answer.error_code == ErrorCode::UNSUPPORTED_VERSION.0
            && version > 0
            && !connection.fell_back
        {
            let offered = answer.api_keys.iter().find(|api| api.api_key == ApiKey::API_VERSIONS.0);
            connection.fell_back = true;
            connection.ask = Some(offered.map_or(0, |api| api.max_version.clamp(0, version - 1)));
            self.unasked += 1;
            self.ask(net, id, now);
            return Ok(());
        }
        if answer.error_code != 0 {
            return Err("the broker refused to say what it speaks");
        }
        connection.state = ConnectionState::Ready;
        connection.health.ready();
        if let Some(versions) = self.versions.get_mut(id.node() as usize) {
            versions.learn(&answer);
        }
        Ok(())
    }
}
