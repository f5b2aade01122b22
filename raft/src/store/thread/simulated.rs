//! The storage thread as a task, where a simulation has no thread for it: the same work in the same order, with the time
//! that an fsync takes passing before it has happened.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SendError, Sender, TryRecvError};

use tokio::sync::Notify;

use super::{Command, Thread};
use crate::simulated;

/// The way to the thread, or to the task.
#[derive(Clone)]
pub(in crate::store) struct Commands {
    commands: Sender<Command>,
    bell: Arc<Bell>,
}

/// Wakes the task, and for the last time when nobody is left to ring.
#[derive(Default)]
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Commands {
    pub(in crate::store) fn send(&self, command: Command) -> Result<(), SendError<Command>> {
        self.commands.send(command)?;
        self.bell.0.notify_one();
        Ok(())
    }
}

impl Thread {
    pub(in crate::store) fn start(self) -> io::Result<Commands> {
        let (commands, queue) = mpsc::channel();
        let bell = Bell::default();
        if simulated::is_on() {
            tokio::spawn(self.serve_simulated(queue, Arc::clone(&bell.0)));
        } else {
            self.spawn(queue)?;
        }
        Ok(Commands { commands, bell: Arc::new(bell) })
    }

    async fn serve_simulated(mut self, queue: Receiver<Command>, bell: Arc<Notify>) {
        loop {
            match queue.try_recv() {
                Ok(Command::Close { marking, done }) => {
                    if marking {
                        self.finish();
                    }
                    drop(self);
                    let _ = done.send(());
                    return;
                }
                Ok(command) => self.timed(|thread| thread.perform(command)),
                Err(TryRecvError::Disconnected) => return self.finish(),
                Err(TryRecvError::Empty) if self.waiting.is_empty() && self.purging.is_none() => {
                    bell.notified().await;
                }
                Err(TryRecvError::Empty) => {
                    self.shared.busy.begin();
                    let takes = simulated::host().map(|host| host.fsync_time()).unwrap_or_default();
                    tokio::time::sleep(takes).await;
                    self.make_durable();
                    self.purge_slice();
                    self.shared.busy.end();
                }
            }
        }
    }
}
