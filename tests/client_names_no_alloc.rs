//! A client that loses its connection, looks its broker's name up again and connects anew allocates
//! nothing.

#[allow(dead_code, missing_docs, reason = "made for more than one test")]
#[path = "../src/client/tests/zone.rs"]
mod zone;

use kloop::broker::{BrokerConfig, BrokerLimits};
use kloop::client::{ClientConfig, ClientEvent, ClientLimits};
use kloop::engine::{Engine, EngineConfig, Event};
use kloop::properties::Properties;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;
use zone::Zone;

/// Counts what the thread that asks for it allocates.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count_one() {
    // A thread that is ending has no count any more, and is not asked for one.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: hands everything to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count_one();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_lookup_allocates_nothing() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let (tell, asked) = mpsc::channel();
    std::thread::spawn(move || {
        // The first address is dead: each time both are raced.
        let mut zone = Zone::new(&[("broker.test", &["127.0.0.9", "127.0.0.1"])]);
        let mut buf = [0; 1024];
        while let Ok((n, from)) = server.recv_from(&mut buf) {
            for answer in zone.answer(&buf[..n], true) {
                let _ = server.send_to(&answer, from);
            }
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    let mut engine = Engine::new(EngineConfig::default()).unwrap();
    let config = BrokerConfig::from_properties(Properties::new([])).unwrap();
    let any = Some("127.0.0.1:0".parse().unwrap());
    let (limits, name) = (BrokerLimits::default(), Some(("broker.test", 0)));
    let broker = engine.add_broker(config, limits, 1, any, name).unwrap();
    let bootstrap = format!("broker.test:{}", engine.broker_address(broker).unwrap().port());
    let server = at.to_string();
    // An idle connection is closed, and metadata is asked for again: a new connection each time.
    let pairs = [
        ("bootstrap.servers", bootstrap.as_str()),
        ("resolver.nameservers", &server),
        ("connections.max.idle.ms", "20"),
        ("metadata.max.age.ms", "40"),
        ("retry.backoff.ms", "10"),
    ];
    let config = ClientConfig::from_properties(Properties::new(pairs)).unwrap();
    let client = engine.add_client(config, ClientLimits::default(), 2).unwrap();
    let mut run = |lookups: usize| {
        let mut seen = 0;
        while seen < 2 * lookups {
            let took = engine.poll(16, Some(Duration::from_millis(20)), |event| {
                assert!(matches!(event, Event::Client(ClientEvent::Ready { .. })), "{event:?}");
            });
            took.unwrap();
            COUNT.with(|count| {
                // What the test itself does is not counted.
                let before = count.take();
                seen += asked.try_iter().count();
                count.set(before);
            });
        }
    };
    run(3);
    COUNT.set(Some(0));
    run(10);
    assert_eq!(COUNT.take(), Some(0));
    let stats = engine.with_client(client, |client, _, _| Ok(client.stats())).unwrap();
    assert!(stats.connects >= 13, "{stats:?}");
}
