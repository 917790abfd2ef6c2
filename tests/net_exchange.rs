//! Exchanges over real sockets: a question to a server that says what it likes, from whom it likes,
//! in what pieces it likes.

mod net_support;

use kloop::error::Error;
use kloop::net::{ConnId, ExchangeId, Notice, Selectable, Transport};
use net_support::{Host, PATIENCE, options};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

/// A host, and what exchanges gave that no test has looked at.
struct Asker {
    host: Host,
    came: VecDeque<(ExchangeId, Result<Vec<u8>, Error>)>,
}

impl Asker {
    fn new() -> Self {
        Asker { host: Host::usual(), came: VecDeque::new() }
    }

    fn ask(&mut self, server: SocketAddr, over: Transport) -> Result<ExchangeId, Error> {
        self.host.selector.ask(server, over, b"question", options().owner)
    }

    /// One turn; says how many answers it had.
    fn turn(&mut self) -> usize {
        let before = self.came.len();
        let came = &mut self.came;
        self.host.turn(|selector, conn, notice| {
            let Notice::Answered(id) = notice else { panic!("{notice:?}") };
            assert_eq!(conn, ConnId::NONE);
            let answer = selector.next_answer(id).map(|a| a.map(|a| a.to_vec())).transpose();
            came.extend(answer.map(|answer| (id, answer)));
        });
        self.came.len() - before
    }

    /// The next answer of an exchange, or its end.
    fn answer(&mut self, id: ExchangeId) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(at) = self.came.iter().position(|(from, _)| *from == id) {
                return self.came.remove(at).unwrap().1;
            }
            assert!(self.host.await_readable(PATIENCE), "an answer is due");
            self.turn();
        }
    }
}

fn udp() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn read(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = [0; 64];
    let (n, from) = socket.recv_from(&mut buf).unwrap();
    (buf[..n].to_vec(), from)
}

#[test]
fn only_the_server_that_was_asked_is_heard() {
    let mut host = Asker::new();
    let (server, at) = udp();
    let id = host.ask(at, Transport::Udp).unwrap();
    let (question, from) = read(&server);
    assert_eq!(question, b"question");
    let (stranger, _) = udp();
    stranger.send_to(b"forged", from).unwrap();
    server.send_to(b"first", from).unwrap();
    server.send_to(b"second", from).unwrap();
    assert_eq!(host.answer(id).unwrap(), b"first");
    // It stays open: only the owner knows which one it wants.
    assert_eq!(host.answer(id).unwrap(), b"second");
    host.host.selector.end_exchange(id);
    assert_eq!(host.host.selector.next_answer(id).err(), Some(Error::Stale));
    host.host.selector.end_exchange(id);
}

#[test]
fn every_question_has_a_port_of_its_own() {
    let mut host = Asker::new();
    let (server, at) = udp();
    let ids: Vec<_> = (0..4).map(|_| host.ask(at, Transport::Udp).unwrap()).collect();
    let ports: std::collections::HashSet<u16> = (0..4).map(|_| read(&server).1.port()).collect();
    assert_eq!(ports.len(), 4);
    assert_eq!(host.ask(at, Transport::Udp), Err(Error::Exhausted("exchanges")));
    host.host.selector.end_exchange(ids[1]);
    assert!(host.ask(at, Transport::Udp).is_ok());
}

#[test]
fn nobody_listens() {
    let mut host = Asker::new();
    let at = udp().1;
    let id = host.ask(at, Transport::Udp).unwrap();
    assert_eq!(host.answer(id), Err(Error::Io(libc::ECONNREFUSED)));
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    match host.ask(at, Transport::Tcp) {
        Ok(id) => assert_eq!(host.answer(id), Err(Error::Io(libc::ECONNREFUSED))),
        Err(error) => assert_eq!(error, Error::Io(libc::ECONNREFUSED)),
    }
}

/// Serves one connection: reads the question, and writes these pieces.
fn stream(pieces: Vec<Vec<u8>>) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut question = [0; 10];
        stream.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"\0\x08question");
        for piece in pieces {
            if stream.write_all(&piece).is_err() {
                return;
            }
        }
    };
    (at, std::thread::spawn(serve))
}

#[test]
fn over_tcp_in_pieces() {
    let mut host = Asker::new();
    let large = vec![7; 16 * 1024];
    let framed = [&(16u16 * 1024).to_be_bytes()[..], &large].concat();
    let pieces: Vec<Vec<u8>> =
        [&framed[..1], &framed[1..2], &framed[2..900], &framed[900..]].map(<[u8]>::to_vec).into();
    let (at, thread) = stream(pieces);
    let id = host.ask(at, Transport::Tcp).unwrap();
    assert_eq!(host.answer(id).unwrap(), large);
    // The server closes; nothing more comes.
    assert_eq!(host.answer(id), Err(Error::Closed));
    thread.join().unwrap();
}

#[test]
fn over_tcp_with_lies() {
    let mut host = Asker::new();
    for (pieces, error) in [
        (vec![], Error::Closed),
        (vec![vec![0]], Error::Closed),
        (vec![vec![0, 9, 1, 2, 3]], Error::Closed),
        (vec![vec![0x40, 1], vec![1; 100]], Error::TooLarge),
    ] {
        let (at, thread) = stream(pieces);
        let id = host.ask(at, Transport::Tcp).unwrap();
        assert_eq!(host.answer(id), Err(error));
        thread.join().unwrap();
        assert_eq!(host.host.selector.next_answer(id).err(), Some(Error::Stale));
    }
    let (at, thread) = stream(vec![vec![0, 0]]);
    let id = host.ask(at, Transport::Tcp).unwrap();
    assert_eq!(host.answer(id).unwrap(), b"");
    thread.join().unwrap();
    assert_eq!(host.host.selector.pool().leases(), 0);
}

/// Datagrams that keep coming do not keep a turn from ending, nor the descriptor from being readable.
#[test]
fn a_flood_is_bounded_by_the_turn() {
    let mut host = Asker::new();
    let (server, at) = udp();
    let id = host.ask(at, Transport::Udp).unwrap();
    let from = read(&server).1;
    (0..100).for_each(|_| assert_eq!(server.send_to(b"x", from).unwrap(), 1));
    let mut total = 0;
    while total < 100 {
        assert!(host.host.await_readable(PATIENCE));
        let taken = host.turn();
        assert!(taken <= 32, "{taken} in one turn");
        total += taken;
    }
    host.turn();
    assert!(!host.host.readable(), "nothing is left");
    host.host.selector.end_exchange(id);
}
