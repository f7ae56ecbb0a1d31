//! Memory that is needed for a moment, in a process that goes on for long.
//!
//! The tree of a configuration file takes about seventy times the file's size, for some milliseconds. The allocator
//! gives pages that are free again back to the system [`PURGED_AFTER`] later, but only when it is called then, and a
//! gateway that has nothing to do does not call it. So what takes much is made [`apart`], in pages that hold nothing
//! else, and [`give_back_later`] calls the allocator.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// A little longer than the allocator keeps free pages: 1 s (`purge_delay` of mimalloc).
const PURGED_AFTER: Duration = Duration::from_millis(1100);

/// Lends what was made to who reads it.
pub(crate) struct Lender<T> {
    give: mpsc::SyncSender<Arc<T>>,
    is_done: mpsc::Receiver<()>,
}

impl<T> Lender<T> {
    /// Returns when it has been read.
    pub(crate) fn lend(self, made: T) {
        let made = Arc::new(made);
        if self.give.send(Arc::clone(&made)).is_ok() {
            let _ = self.is_done.recv(); // never anything but the end: it has been read
        }
        drop(made); // here, where it was made: so its pages are free when this thread ends
    }
}

/// What `read` makes, in the caller's memory, of what `make` makes and lends in memory of its own. That, and whatever
/// else making it took, is free when this returns: copied, or made here, it would leave holes that only this thread
/// fills. What `make` holds while it lends is not free before, either: `read` gets pages that were never used, and
/// leaves those alone that it does not fill.
///
/// # Errors
/// There is no thread.
pub(crate) fn apart<T: Send + Sync, R>(
    make: impl FnOnce(Lender<T>) + Send,
    read: impl FnOnce(&T) -> R,
) -> io::Result<R> {
    thread::scope(|scope| {
        let (give, given) = mpsc::sync_channel(1);
        let (done, is_done) = mpsc::sync_channel::<()>(0);
        let make = move || make(Lender { give, is_done });
        let maker = thread::Builder::new().name("apart".into()).spawn_scoped(scope, make)?;
        let Ok(made) = given.recv() else {
            return match maker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => Err(io::Error::other("nothing was made")), // cannot be: it is made to be lent
            };
        };
        let result = read(&made);
        drop((made, done)); // in this order: the other thread is the last to have it
        Ok(result)
    })
}

/// Gives free pages back to the system, when they are old enough. To be called after much was done that is not done
/// often.
pub(crate) fn give_back_later() {
    // The allocator looks for pages to give back when a thread ends that has allocated something, such as its name.
    // Without the thread they are kept, which is no more than a pity.
    let _ = thread::Builder::new().name("memory".into()).spawn(|| thread::sleep(PURGED_AFTER));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_there_and_read_here() {
        let here = thread::current().id();
        let make = |lender: Lender<_>| lender.lend(thread::current().id());
        let (made, reader) = apart(make, |made| (*made, thread::current().id())).unwrap();
        assert_eq!(reader, here);
        assert_ne!(made, here);
    }

    #[test]
    fn freed_where_it_was_made() {
        struct Tells(mpsc::Sender<thread::ThreadId>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.send(thread::current().id()).unwrap();
            }
        }
        let (tell, told) = mpsc::channel();
        let make = |lender: Lender<_>| {
            let _held = Tells(tell.clone());
            lender.lend((Tells(tell.clone()), thread::current().id()));
        };
        let made = apart(make, |(_, made)| {
            assert!(told.try_recv().is_err(), "what it was made of is there");
            *made
        });
        assert_eq!([told.try_recv(), told.try_recv()], [Ok(made.unwrap()); 2]);
    }

    #[test]
    #[should_panic(expected = "of its own")]
    fn a_panic_is_passed_on() {
        let _ = apart(|_: Lender<()>| panic!("of its own"), |()| ());
    }
}
