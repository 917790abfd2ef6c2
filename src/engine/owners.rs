//! Owners: an engine's clients and brokers, from when they are added to when they are removed.

use super::served::{Runs, Served};
use super::{BROKER_BIT, Engine, config};
use crate::broker::reactor::advertised_host;
use crate::broker::{Broker, BrokerConfig, BrokerLimits};
use crate::client::{Client, ClientConfig, ClientLimits};
use crate::error::Error;
use crate::logging::Level;
use crate::net::Owner;
use crate::net::pool::Memory;
use crate::net::selector::Selector;
use crate::net::slots::SlotId;
use crate::time::Moment;
use core::time::Duration;
use std::net::SocketAddr;

impl Engine {
    /// Adds a client; `user` comes back as the owner value of its events.
    ///
    /// # Errors
    /// No room for another client.
    pub fn add_client(
        &mut self,
        config: ClientConfig,
        limits: ClientLimits,
        user: u64,
    ) -> Result<SlotId, Error> {
        let id = self.clients.next_id().ok_or(Error::Exhausted("clients of this engine"))?;
        let owner = Owner(id.index() as u32);
        let seed = self.next_seed();
        let logger = self.logger.clone();
        let client = Client::new(config, limits, user, owner, &self.pool, logger, seed)?;
        let inserted = self.clients.insert(client);
        debug_assert!(inserted.as_ref().is_ok_and(|at| *at == id));
        self.touch();
        Ok(id)
    }

    /// Ends a client at once: its connections close, records without an outcome get none.
    pub fn remove_client(&mut self, id: SlotId) {
        let now = self.moment();
        if let Some(mut client) = self.clients.remove(id) {
            client.close(&mut self.selector, Duration::ZERO, now);
        }
    }

    /// Runs a call on a client, and wakes the host's loop if it left work.
    ///
    /// # Errors
    /// [`Error::Stale`], or what the call gives.
    pub fn with_client<R>(
        &mut self,
        id: SlotId,
        call: impl FnOnce(&mut Client, &mut Selector, Moment) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let now = self.moment();
        let client = self.clients.get_mut(id).ok_or(Error::Stale)?;
        let result = call(client, &mut self.selector, now);
        self.touch();
        result
    }

    /// Adds a broker. With `listen` it takes connections there (port 0 picks one); without, only
    /// those that [`Engine::with_broker`] adopts. `advertised` is what clients are told to connect
    /// to; without it, the listening address.
    ///
    /// # Errors
    /// No room for another broker, no memory for its log, or the address cannot be had.
    pub fn add_broker(
        &mut self,
        mut config: BrokerConfig,
        limits: BrokerLimits,
        user: u64,
        listen: Option<SocketAddr>,
        advertised: Option<(&str, u16)>,
    ) -> Result<SlotId, Error> {
        let id = self.brokers.next_id().ok_or(Error::Exhausted("brokers of this engine"))?;
        if let Memory::Map { prefault } = &mut config.memory {
            *prefault |= self.prefault;
        }
        let owner = Owner(id.index() as u32 | BROKER_BIT);
        let seed = self.next_seed();
        let mut broker = Broker::new(config, limits, user, owner, self.logger.clone(), seed)?;
        let options = broker.channel_options();
        let bound = match listen {
            Some(at) => Some(self.selector.listen(at, config::LISTEN_BACKLOG, &options)?),
            None => None,
        };
        let address = bound.map(|(_, address)| address);
        match (advertised, address) {
            (Some((host, port)), at) => {
                let port = if port == 0 { at.map_or(0, |at| at.port()) } else { port };
                broker.set_advertised(host, port);
            }
            (None, Some(at)) => {
                if let Some(host) = advertised_host(at) {
                    broker.set_advertised(&host, at.port());
                }
            }
            (None, None) => {}
        }
        if let Some(at) = address {
            self.logger.line(Level::Info, format_args!("broker listens on {at}"));
        }
        let listener = bound.map(|(listener, _)| listener);
        let inserted = self.brokers.insert(Served {
            runs: Runs::Polled(Box::new(broker)),
            listener,
            address,
            user,
        });
        debug_assert!(inserted.as_ref().is_ok_and(|at| *at == id));
        self.touch();
        Ok(id)
    }

    /// Where a broker listens.
    pub fn broker_address(&self, id: SlotId) -> Option<SocketAddr> {
        self.brokers.get(id)?.address()
    }

    /// Ends a broker at once: connections close, the log is gone.
    pub fn remove_broker(&mut self, id: SlotId) {
        // A stale id has nothing to end.
        let _ = self.close_broker(id, Duration::ZERO);
        if self.brokers.remove(id).is_some() {
            // Those that it had not heard of yet, and those of a grace that was running.
            self.selector.close_owned(Owner(id.index() as u32 | BROKER_BIT));
        }
    }
}
