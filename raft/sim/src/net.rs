//! The network between the hosts, as TCP shows it: bytes of a connection arrive in order or not at all, after whatever
//! delay; one that nobody acknowledges for four seconds breaks; a process that ends resets its connections, a host without
//! power says nothing. Links are cut one way or both. Everything happens at a simulated time, in one order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::below::{MS, Ns, now};
use crate::rng::Rng;

/// `TCP_USER_TIMEOUT`, and about what the keep-alive takes.
const SILENCE: Ns = 4_000 * MS;
/// Pause before a segment, or a connection, is tried again.
const RETRY: std::ops::Range<Ns> = MS..200 * MS;

/// How bytes travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) fastest: Ns,
    pub(crate) slowest: Ns,
    /// So often in a hundred a segment is lost, and sent again later.
    pub(crate) lost_percent: u64,
}

enum Event {
    Deliver {
        conn: u64,
        to: usize,
        number: u64,
        segment: Segment,
    },
    Reset {
        conn: u64,
    },
    /// Unless the link has worked since.
    ResetIfCut {
        conn: u64,
        since: Ns,
    },
    Syn {
        dial: Dial,
    },
    Dialled {
        dial: Dial,
        answer: Result<u64, io::ErrorKind>,
    },
}

/// Bytes, or the end of them.
type Segment = Option<Vec<u8>>;

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    inbox: VecDeque<u8>,
    reader: Option<Waker>,
    is_over: bool,
    /// Numbers of the next segment to be sent, and to be received.
    next: (u64, u64),
    /// Arrived before one that goes before it.
    early: BTreeMap<u64, Segment>,
    /// Sent while the link was cut.
    held: Vec<(u64, Segment)>,
}

struct Conn {
    /// Which host each end is on.
    hosts: [usize; 2],
    /// By the end they arrive at.
    pipes: [Pipe; 2],
    is_open: [bool; 2],
    is_reset: bool,
}

/// A connection that is being made.
#[derive(Clone)]
pub(crate) struct Dial {
    from: usize,
    to: SocketAddr,
    answer: Arc<Mutex<DialAnswer>>,
}

#[derive(Default)]
struct DialAnswer {
    result: Option<Result<u64, io::ErrorKind>>,
    waiting: Option<Waker>,
}

impl Dial {
    /// The connection, whose end 0 is the caller's.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut answer = lock(&self.answer);
        match answer.result {
            Some(result) => Poll::Ready(result.map_err(io::Error::from)),
            None => {
                answer.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

struct Listening {
    host: usize,
    arrived: VecDeque<u64>,
    acceptor: Option<Waker>,
}

pub(crate) struct Net {
    rng: Rng,
    pub(crate) pace: Pace,
    conns: BTreeMap<u64, Conn>,
    next_conn: u64,
    events: BTreeMap<(Ns, u64), Event>,
    next_event: u64,
    listening: BTreeMap<SocketAddr, Listening>,
    hosts: BTreeMap<SocketAddr, usize>,
    /// Links that are cut, from and to, and since when.
    cut: BTreeMap<(usize, usize), Ns>,
    dark: BTreeSet<usize>,
    /// Hosts to which something came.
    woken: BTreeSet<usize>,
}

impl Net {
    pub(crate) fn new(rng: Rng, hosts: BTreeMap<SocketAddr, usize>, pace: Pace) -> Self {
        Self {
            rng,
            pace,
            conns: BTreeMap::new(),
            next_conn: 0,
            events: BTreeMap::new(),
            next_event: 0,
            listening: BTreeMap::new(),
            hosts,
            cut: BTreeMap::new(),
            dark: BTreeSet::new(),
            woken: BTreeSet::new(),
        }
    }

    fn at(&mut self, time: Ns, event: Event) {
        self.events.insert((time, self.next_event), event);
        self.next_event += 1;
    }

    fn delay(&mut self) -> Ns {
        let lost = if self.rng.percent(self.pace.lost_percent) { self.rng.between(RETRY) } else { 0 };
        self.rng.between(self.pace.fastest..self.pace.slowest + 1) + lost
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Option<Ns> {
        self.events.first_key_value().map(|((time, _), _)| *time)
    }

    /// Does what is due. Answers the hosts that have to look.
    pub(crate) fn run(&mut self) -> BTreeSet<usize> {
        while self.next_at().is_some_and(|at| at <= now()) {
            let (_, event) = self.events.pop_first().expect("the next one was just looked at");
            self.happen(event);
        }
        std::mem::take(&mut self.woken)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { conn, to, number, segment } => self.deliver(conn, to, number, segment),
            Event::Reset { conn } => self.reset(conn),
            Event::ResetIfCut { conn, since } => {
                let Some([one, other]) = self.conns.get(&conn).map(|conn| conn.hosts) else { return };
                if self.cut_since(one, other).is_some_and(|cut| cut <= since) {
                    self.reset(conn);
                }
            }
            Event::Syn { dial } => self.arrive(dial),
            Event::Dialled { dial, answer } => {
                let mut answered = lock(&dial.answer);
                answered.result = Some(answer);
                self.woken.insert(dial.from);
                if let Some(waker) = answered.waiting.take() {
                    waker.wake();
                }
            }
        }
    }

    fn pipe(&mut self, conn: u64, to: usize) -> Option<&mut Pipe> {
        self.conns.get_mut(&conn).map(|conn| &mut conn.pipes[to])
    }

    /// Since when the link between two hosts has been cut, one way or the other.
    fn cut_since(&self, one: usize, other: usize) -> Option<Ns> {
        let cuts = [self.cut.get(&(one, other)), self.cut.get(&(other, one))];
        let dark = [one, other].iter().any(|host| self.dark.contains(host)).then_some(0);
        cuts.into_iter().flatten().copied().chain(dark).min()
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.contains_key(&(from, to)) || self.dark.contains(&to) || self.dark.contains(&from)
    }

    fn deliver(&mut self, conn: u64, to: usize, number: u64, segment: Segment) {
        let Some(hosts) = self.conns.get(&conn).map(|conn| conn.hosts) else { return };
        let cut = self.is_cut(hosts[1 - to], hosts[to]);
        let Some(pipe) = self.pipe(conn, to) else { return };
        if cut {
            return pipe.held.push((number, segment));
        }
        pipe.early.insert(number, segment);
        while let Some(segment) = pipe.early.remove(&pipe.next.1) {
            pipe.next.1 += 1;
            match segment {
                Some(bytes) => pipe.inbox.extend(bytes),
                None => pipe.is_over = true,
            }
        }
        self.wake_reader(conn, to);
    }

    fn wake_reader(&mut self, conn: u64, end: usize) {
        let Some(conn) = self.conns.get_mut(&conn) else { return };
        self.woken.insert(conn.hosts[end]);
        if let Some(waker) = conn.pipes[end].reader.take() {
            waker.wake();
        }
    }

    fn reset(&mut self, conn: u64) {
        let Some(found) = self.conns.get_mut(&conn) else { return };
        found.is_reset = true;
        for end in 0..2 {
            self.wake_reader(conn, end);
        }
    }

    fn arrive(&mut self, dial: Dial) {
        let Some(&to) = self.hosts.get(&dial.to) else { return };
        if self.cut_since(dial.from, to).is_some() {
            let again = now() + 1_000 * MS;
            return self.at(again, Event::Syn { dial });
        }
        let answer = match self.listening.get_mut(&dial.to) {
            None => Err(io::ErrorKind::ConnectionRefused),
            Some(listening) => {
                let conn = Conn {
                    hosts: [dial.from, to],
                    pipes: Default::default(),
                    is_open: [true; 2],
                    is_reset: false,
                };
                self.next_conn += 1;
                self.conns.insert(self.next_conn, conn);
                listening.arrived.push_back(self.next_conn);
                self.woken.insert(listening.host);
                if let Some(waker) = listening.acceptor.take() {
                    waker.wake();
                }
                Ok(self.next_conn)
            }
        };
        let at = now() + self.delay();
        self.at(at, Event::Dialled { dial, answer });
    }

    pub(crate) fn dial(&mut self, from: usize, to: SocketAddr) -> Dial {
        let dial = Dial { from, to, answer: Arc::default() };
        let at = now() + self.delay();
        self.at(at, Event::Syn { dial: dial.clone() });
        dial
    }

    pub(crate) fn listen(&mut self, host: usize, addr: SocketAddr) {
        self.listening.insert(addr, Listening { host, arrived: VecDeque::new(), acceptor: None });
    }

    /// A connection, whose end 1 is the listener's.
    pub(crate) fn poll_accept(&mut self, addr: SocketAddr, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let Some(listening) = self.listening.get_mut(&addr) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match listening.arrived.pop_front() {
            Some(conn) => Poll::Ready(Ok(conn)),
            None => {
                listening.acceptor = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        conn: u64,
        end: usize,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Vec<u8>>> {
        let Some(conn) = self.conns.get_mut(&conn).filter(|conn| !conn.is_reset) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let pipe = &mut conn.pipes[end];
        if pipe.inbox.is_empty() && !pipe.is_over {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let read = most.min(pipe.inbox.len());
        Poll::Ready(Ok(pipe.inbox.drain(..read).collect()))
    }

    pub(crate) fn write(&mut self, conn: u64, end: usize, bytes: &[u8]) -> io::Result<()> {
        let found = self.conns.get_mut(&conn).filter(|conn| !conn.is_reset && !conn.pipes[end].is_over);
        let found = found.ok_or(io::ErrorKind::BrokenPipe)?;
        let hosts = found.hosts;
        self.send(conn, 1 - end, Some(bytes.to_owned()));
        if self.cut_since(hosts[0], hosts[1]).is_some() {
            self.at(now() + SILENCE, Event::ResetIfCut { conn, since: now() });
        }
        Ok(())
    }

    fn send(&mut self, conn: u64, to: usize, segment: Segment) {
        let at = now() + self.delay();
        let Some(pipe) = self.pipe(conn, to) else { return };
        let number = pipe.next.0;
        pipe.next.0 += 1;
        self.at(at, Event::Deliver { conn, to, number, segment });
    }

    pub(crate) fn close(&mut self, conn: u64, end: usize) {
        let Some(found) = self.conns.get_mut(&conn) else { return };
        found.is_open[end] = false;
        if found.is_open.contains(&true) {
            self.send(conn, 1 - end, None);
        } else {
            self.conns.remove(&conn);
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cut.entry((from, to)).or_insert_with(now);
    }

    /// All links work; what was held is sent again.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.send_again();
    }

    fn send_again(&mut self) {
        let mut again = Vec::new();
        for (id, conn) in &mut self.conns {
            for to in 0..2 {
                again
                    .extend(std::mem::take(&mut conn.pipes[to].held).into_iter().map(|held| (*id, to, held)));
            }
        }
        for (conn, to, (number, segment)) in again {
            let at = now() + self.rng.between(RETRY);
            self.at(at, Event::Deliver { conn, to, number, segment });
        }
    }

    /// The process on `host` has ended: nobody listens, and the kernel resets what it had.
    pub(crate) fn end_process(&mut self, host: usize) {
        let at = now() + self.delay();
        self.drop_host(host, at);
    }

    /// The host says nothing any more.
    pub(crate) fn lose_power(&mut self, host: usize) {
        self.dark.insert(host);
        let at = now() + SILENCE + self.delay();
        self.drop_host(host, at);
    }

    /// The host answers again; what it knows nothing of it resets.
    pub(crate) fn power_up(&mut self, host: usize) {
        if self.dark.remove(&host) {
            let at = now() + self.delay();
            self.drop_host(host, at);
        }
    }

    fn drop_host(&mut self, host: usize, at: Ns) {
        self.listening.retain(|_, listening| listening.host != host);
        let mut ended = Vec::new();
        for (id, conn) in self.conns.iter_mut().filter(|(_, conn)| conn.hosts.contains(&host)) {
            let end = usize::from(conn.hosts[0] != host);
            conn.is_open[end] = false;
            ended.push(*id);
        }
        for conn in ended {
            self.at(at, Event::Reset { conn });
        }
    }
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().expect("nothing panics while it holds a lock of the simulation")
}
