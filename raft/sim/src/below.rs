//! Time and chance, taken over below everything: at the C library. This program has a `clock_gettime`, a `getrandom`
//! and an `epoll_wait` of its own, which the linker takes before the library's. On a thread that simulates, the clock
//! shows simulated time, chance is a function of the seed, and a runtime with nothing left to do does not sleep: it
//! says when its next timer is due and hands back. On any other thread they do what the library's do.
//!
//! So neither the product nor its dependencies (tokio's `select!`, hash maps, openraft's election time-outs, tarpc's
//! deadlines) need to know that they are simulated.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use libc::{c_int, c_long, c_uint, c_void, clockid_t, epoll_event, size_t, ssize_t, timespec};
use tokio::runtime::Runtime;

use crate::rng::Rng;

/// Nanoseconds since the simulated hosts booted.
pub(crate) type Ns = u64;

pub(crate) const MS: Ns = 1_000_000;
const SECOND: Ns = 1_000_000_000;
/// When the hosts booted, by the clock on the wall.
const EPOCH: Ns = 1_800_000_000 * SECOND;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static NOW: Cell<Ns> = const { Cell::new(0) };
    static WALL_OFFSET_MS: Cell<i64> = const { Cell::new(0) };
    static CHANCE: RefCell<Option<Rng>> = const { RefCell::new(None) };
    /// When the runtime that was to sleep would have woken: in so many milliseconds, or for nothing but a message.
    static IDLE: Cell<Option<Option<u64>>> = const { Cell::new(None) };
    static WAITING: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// From here on this thread is simulated, and never anything else.
pub(crate) fn take_over(seed: u64) {
    CHANCE.with(|chance| *chance.borrow_mut() = Some(Rng::new(seed, 1)));
    // Hosts have been up for a while.
    NOW.set(1_000 * SECOND);
    ON.set(true);
}

pub(crate) fn now() -> Ns {
    NOW.get()
}

pub(crate) fn set_now(now: Ns) {
    NOW.set(now);
}

/// By how much the wall clock of the host that runs now is wrong.
pub(crate) fn set_wall_offset_ms(by_ms: i64) {
    WALL_OFFSET_MS.set(by_ms);
}

/// Runs all there is to do at this moment. Answers when there is more, if that does not depend on others.
pub(crate) fn run_until_idle(runtime: &Runtime) -> Option<Ns> {
    IDLE.set(None);
    runtime.block_on(UntilIdle);
    let next = IDLE.take().expect("it ends when it is idle");
    next.map(|in_ms| now() + in_ms * MS)
}

struct UntilIdle;

impl Future for UntilIdle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if IDLE.get().is_some() {
            return Poll::Ready(());
        }
        WAITING.with(|waiting| *waiting.borrow_mut() = Some(cx.waker().clone()));
        Poll::Pending
    }
}

fn is_on() -> bool {
    ON.try_with(Cell::get).unwrap_or(false)
}

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if !is_on() {
        // SAFETY: the caller's promise is the kernel's condition.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return if result == 0 { 0 } else { -1 };
    }
    let now = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            (EPOCH + NOW.get()).saturating_add_signed(WALL_OFFSET_MS.get() * 1_000_000)
        }
        _ => NOW.get(),
    };
    let seconds = libc::time_t::try_from(now / SECOND).unwrap_or(libc::time_t::MAX);
    let nanoseconds = c_long::try_from(now % SECOND).unwrap_or(0);
    // SAFETY: the caller gives a place to write to.
    unsafe { *time = timespec { tv_sec: seconds, tv_nsec: nanoseconds } };
    0
}

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(into: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    let simulated = is_on().then(|| CHANCE.with(|chance| chance.borrow_mut().clone())).flatten();
    let Some(mut rng) = simulated else {
        // SAFETY: the caller's promise is the kernel's condition.
        let result = unsafe { libc::syscall(libc::SYS_getrandom, into, length, flags) };
        return ssize_t::try_from(result).unwrap_or(-1);
    };
    for at in 0..length {
        let byte = rng.next_u64().to_le_bytes()[0];
        // SAFETY: the caller gives `length` bytes to write to.
        unsafe { into.cast::<u8>().add(at).write(byte) };
    }
    CHANCE.with(|chance| *chance.borrow_mut() = Some(rng));
    ssize_t::try_from(length).unwrap_or(-1)
}

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    if !is_on() {
        // SAFETY: the caller's promise is the kernel's condition; no signal mask is given.
        let result = unsafe {
            let none = std::ptr::null::<c_void>();
            libc::syscall(libc::SYS_epoll_pwait, epoll, events, most, timeout_ms, none, 0)
        };
        return c_int::try_from(result).unwrap_or(-1);
    }
    if timeout_ms != 0 {
        IDLE.set(Some(u64::try_from(timeout_ms).ok()));
        if let Some(waker) = WAITING.with(|waiting| waiting.borrow_mut().take()) {
            waker.wake();
        }
    }
    0
}
