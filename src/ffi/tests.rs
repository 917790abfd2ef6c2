//! The panic boundary: what a bug inside a call does to its engine, and what it does not do to the
//! caller. No argument makes a call panic, so these go in where every exported function does.

use super::boundary::{free_child, guard, on_child, on_engine, on_shell};
use super::handle::{HandleCell, Kind};
use super::status::kloop_status_code as code;
use super::*;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::{null, null_mut};
use std::net::TcpStream;

const PANIC: i32 = code::KLOOP_E_PANIC as i32;
const POISONED: i32 = code::KLOOP_E_POISONED as i32;
const STALE: i32 = code::KLOOP_E_STALE as i32;

/// An engine with one child of each kind.
struct Handles {
    engine: *mut kloop_engine,
    broker: *mut kloop_broker,
    client: *mut kloop_client,
    producer: *mut kloop_producer,
    consumer: *mut kloop_consumer,
}

fn conf(props: &[kloop_prop]) -> kloop_conf {
    let mut conf = core::mem::MaybeUninit::<kloop_conf>::uninit();
    let at = conf.as_mut_ptr();
    // SAFETY: there is room for the struct at `at`.
    assert_eq!(unsafe { kloop_conf_init(at, size_of::<kloop_conf>(), KLOOP_ABI) }, 0);
    // SAFETY: the call above wrote it.
    let conf = unsafe { conf.assume_init() };
    kloop_conf { props: props.as_ptr(), prop_count: props.len(), ..conf }
}

fn broker_conf() -> kloop_broker_conf {
    let mut conf = core::mem::MaybeUninit::<kloop_broker_conf>::uninit();
    let at = conf.as_mut_ptr();
    // SAFETY: there is room for the struct at `at`.
    assert_eq!(unsafe { kloop_broker_conf_init(at, size_of::<kloop_broker_conf>(), KLOOP_ABI) }, 0);
    // SAFETY: the call above wrote it.
    let conf = unsafe { conf.assume_init() };
    kloop_broker_conf { listen: c"127.0.0.1:0".as_ptr(), ..conf }
}

impl Handles {
    fn new() -> Handles {
        let props =
            [kloop_prop { key: c"bootstrap.servers".as_ptr(), value: c"127.0.0.1:1".as_ptr() }];
        let (given, none, broker_conf) = (conf(&props), conf(&[]), broker_conf());
        let mut h = Handles {
            engine: null_mut(),
            broker: null_mut(),
            client: null_mut(),
            producer: null_mut(),
            consumer: null_mut(),
        };
        // SAFETY: all arguments are NULL where that is allowed, or live through the call.
        assert_eq!(unsafe { kloop_engine_new(null(), &mut h.engine, null_mut()) }, 0);
        let err = null_mut();
        // SAFETY: as above.
        assert_eq!(unsafe { kloop_broker_new(h.engine, &broker_conf, &mut h.broker, err) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { kloop_client_new(h.engine, &given, &mut h.client, err) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { kloop_producer_new(h.client, &none, &mut h.producer, err) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { kloop_consumer_new(h.client, &none, &mut h.consumer, err) }, 0);
        h
    }

    /// What the next call of each kind answers.
    fn answers(&self) -> [i32; 8] {
        let mut events = [core::mem::MaybeUninit::<kloop_event>::uninit(); 1];
        let events = events.as_mut_ptr().cast();
        [
            // SAFETY: the handles live; there is room for one event.
            unsafe { kloop_poll(self.engine, events, 1, 0) },
            // SAFETY: as above.
            unsafe { kloop_engine_fd(self.engine) },
            // SAFETY: as above.
            unsafe { kloop_engine_timeout(self.engine) as i32 },
            // SAFETY: as above.
            unsafe { kloop_client_close(self.client, 0) },
            // SAFETY: as above.
            unsafe { kloop_producer_flush(self.producer, 1) },
            // SAFETY: as above.
            unsafe { kloop_consumer_close(self.consumer, 0) },
            // SAFETY: as above.
            unsafe { kloop_broker_close(self.broker, 0) },
            // SAFETY: as above; the output is NULL, which is looked at later than the engine.
            unsafe { kloop_waker_new(self.engine, null_mut()) },
        ]
    }

    /// What a call on the handle with this number answers.
    fn answer(&self, which: usize) -> i32 {
        match which {
            // SAFETY: a handle that is not freed.
            0 => unsafe { kloop_engine_fd(self.engine) },
            // SAFETY: as above.
            1 => unsafe { kloop_broker_close(self.broker, 0) },
            // SAFETY: as above.
            2 => unsafe { kloop_client_close(self.client, 0) },
            // SAFETY: as above.
            3 => unsafe { kloop_producer_flush(self.producer, 1) },
            // SAFETY: as above.
            _ => unsafe { kloop_consumer_position(self.consumer, 0, 0) as i32 },
        }
    }

    /// Frees the handle with this number.
    fn free(&self, which: usize) {
        match which {
            // SAFETY: a live handle, freed once.
            0 => unsafe { kloop_engine_free(self.engine) },
            // SAFETY: as above.
            1 => unsafe { kloop_broker_free(self.broker) },
            // SAFETY: as above.
            2 => unsafe { kloop_client_free(self.client) },
            // SAFETY: as above.
            3 => unsafe { kloop_producer_free(self.producer) },
            // SAFETY: as above.
            _ => unsafe { kloop_consumer_free(self.consumer) },
        }
    }

    fn last_error(&self) -> (i32, String) {
        let mut out = core::mem::MaybeUninit::<kloop_error>::uninit();
        // SAFETY: the engine lives, and the output is writable.
        unsafe { kloop_engine_error(self.engine, out.as_mut_ptr()) };
        // SAFETY: the call above wrote it.
        let out = unsafe { out.assume_init() };
        // SAFETY: a text in `kloop_error` ends in a zero byte.
        let text = unsafe { CStr::from_ptr(out.msg.as_ptr()) };
        (out.code, text.to_str().unwrap().to_owned())
    }
}

/// Every order of the five handles.
fn orders() -> Vec<[usize; 5]> {
    let mut out = vec![];
    for n in 0..5usize.pow(5) {
        let order = [n % 5, n / 5 % 5, n / 25 % 5, n / 125 % 5, n / 625 % 5];
        if (0..5).all(|which| order.contains(&which)) {
            out.push(order);
        }
    }
    out
}

#[test]
fn a_panic_is_a_status_and_poisons_the_engine() {
    let h = Handles::new();
    // SAFETY: the engine lives.
    assert_eq!(unsafe { on_engine(h.engine, |_| panic!("a bug")) }, PANIC);
    assert_eq!(h.last_error(), (PANIC, "bug in kloop: a panic was caught".to_owned()));
    assert_eq!(h.answers(), [POISONED; 8]);
    // SAFETY: as above.
    assert_eq!(unsafe { on_shell(h.engine, |_, _| unreachable!("it does not run")) }, POISONED);
    (0..5).for_each(|which| h.free(which));
}

#[test]
fn a_panic_in_a_childs_call_does_the_same() {
    for kind in [Kind::Broker, Kind::Client, Kind::Producer, Kind::Consumer] {
        let h = Handles::new();
        let cell: *const HandleCell = match kind {
            Kind::Broker => h.broker.cast(),
            Kind::Client => h.client.cast(),
            Kind::Producer => h.producer.cast(),
            _ => h.consumer.cast(),
        };
        // SAFETY: the handle lives.
        assert_eq!(unsafe { on_child(cell, kind, |_, _, _| panic!("a bug")) }, PANIC);
        assert_eq!(h.answers(), [POISONED; 8]);
        (0..5).rev().for_each(|which| h.free(which));
    }
}

/// With a whole engine, and now and then with a poisoned one, whose descriptors are given up.
#[test]
fn handles_are_freed_in_any_order() {
    for (i, order) in orders().into_iter().enumerate() {
        let h = Handles::new();
        if i % 8 == 0 {
            // SAFETY: the engine lives.
            assert_eq!(unsafe { on_engine(h.engine, |_| panic!("a bug")) }, PANIC);
        }
        for (n, which) in order.into_iter().enumerate() {
            // Whatever is left can still be asked.
            let rest = order.iter().skip(n);
            rest.for_each(|which| assert!(h.answer(*which) < 0 || i % 8 != 0));
            h.free(which);
        }
    }
}

/// A panic while an object ends: its handle is gone all the same, and the engine is poisoned.
#[test]
fn a_panic_in_a_free_still_frees_the_handle() {
    let h = Handles::new();
    let cell: *const HandleCell = h.producer.cast();
    // SAFETY: the handle lives, and is not used as if it did afterwards.
    unsafe { free_child(cell, Kind::Producer, |_, _| panic!("a bug")) };
    // SAFETY: its shell lives.
    assert_eq!(unsafe { kloop_producer_flush(h.producer, 1) }, STALE);
    // SAFETY: the handle lives.
    assert_eq!(unsafe { kloop_client_close(h.client, 0) }, POISONED);
    [0, 1, 2, 4].into_iter().for_each(|which| h.free(which));
}

/// What was thrown may itself panic when it is dropped.
#[test]
fn what_was_thrown_is_not_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    assert_eq!(guard(PANIC, || std::panic::panic_any(Bomb)), PANIC);
    assert_eq!(guard(PANIC, || 5), 5);
    let h = Handles::new();
    // SAFETY: the engine lives.
    assert_eq!(unsafe { on_engine(h.engine, |_| std::panic::panic_any(Bomb)) }, PANIC);
    (0..5).for_each(|which| h.free(which));
}

/// A broker's threads do not run on behind an engine that was given up.
#[test]
fn threads_end_with_a_poisoned_engine() {
    let h = Handles::new();
    // SAFETY: the broker lives; there is no buffer.
    let port = unsafe { kloop_broker_address(h.broker, null_mut(), 0) } as u16;
    let mut conf = core::mem::MaybeUninit::<kloop_reactor_conf>::uninit();
    let size = size_of::<kloop_reactor_conf>();
    // SAFETY: there is room for the struct.
    assert_eq!(unsafe { kloop_reactor_conf_init(conf.as_mut_ptr(), size, KLOOP_ABI) }, 0);
    // SAFETY: the broker lives, and the config was written.
    assert_eq!(unsafe { kloop_broker_start(h.broker, conf.as_ptr(), null_mut()) }, 0);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { on_engine(h.engine, |_| panic!("a bug")) }, PANIC);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    h.free(0);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "somebody listens still");
    (1..5).for_each(|which| h.free(which));
}

static LEAKS: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

unsafe extern "C" fn keep_line(_: *mut c_void, _: u32, msg: *const c_char, len: usize) {
    // SAFETY: kloop gives `len` bytes.
    let text = unsafe { core::slice::from_raw_parts(msg.cast::<u8>(), len) };
    LEAKS.lock().unwrap().push(String::from_utf8_lossy(text).into_owned());
}

/// A block that is out when its engine ends is told; one that came home in time is not.
#[test]
fn a_block_that_does_not_come_home_is_told() {
    for kept in [false, true] {
        let mut config = core::mem::MaybeUninit::<kloop_engine_config>::uninit();
        let (at, size) = (config.as_mut_ptr(), size_of::<kloop_engine_config>());
        // SAFETY: there is room for the struct at `at`.
        assert_eq!(unsafe { kloop_engine_config_init(at, size, KLOOP_ABI) }, 0);
        // SAFETY: the call above wrote it.
        let mut config = unsafe { config.assume_init() };
        config.log = Some(keep_line);
        let mut engine = null_mut();
        // SAFETY: the config and the place live through the call.
        assert_eq!(unsafe { kloop_engine_new(&raw const config, &mut engine, null_mut()) }, 0);
        let mut lease = None;
        let take = |inner: &mut super::handle::Inner| {
            lease = inner.engine.pool().lease(1, crate::net::pool::Priority::Data);
            Ok(0)
        };
        // SAFETY: a live engine.
        assert_eq!(unsafe { on_engine(engine, take) }, 0);
        let lease = lease.filter(|_| kept);
        // SAFETY: a live engine; its last handle.
        unsafe { kloop_engine_free(engine) };
        let told = LEAKS.lock().unwrap().iter().any(|line| line.contains("1 blocks of the pool"));
        assert_eq!(told, kept);
        drop(lease);
    }
}
