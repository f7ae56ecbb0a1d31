//! Memory that is needed for a moment, in a process that goes on for long.
//!
//! The tree of a configuration file takes about seventy times the file's size, for some milliseconds. The allocator gives pages that are
//! free again back to the system [`PURGED_AFTER`] later, but only when it is called then, and a gateway that has nothing to do does
//! not call it. So what takes much is made [`apart`], in pages that hold nothing else, and [`give_back_later`] calls the allocator.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// A little longer than the allocator keeps free pages: 1 s (`purge_delay` of mimalloc).
const PURGED_AFTER: Duration = Duration::from_millis(1100);

/// What `make` makes, in memory of the caller's; the rest of what making took is free when this returns.
pub(crate) fn apart<T: Clone + Send + Sync>(make: impl Fn() -> T + Send + Sync) -> T {
    thread::scope(|scope| {
        let make = &make;
        let (give, given) = mpsc::sync_channel(1);
        let (copied, gone) = mpsc::sync_channel::<()>(0);
        let maker = thread::Builder::new().name("apart".into()).spawn_scoped(scope, move || {
            let made = Arc::new(make());
            if give.send(Arc::clone(&made)).is_ok() {
                let _ = gone.recv(); // never anything but the end: the copy is there
            }
            drop(made); // here, where it was made: so its pages are free when this thread ends
        });
        let Ok(maker) = maker else { return make() };
        let copy = given.recv().map(|made| (*made).clone());
        drop(copied);
        match (copy, maker.join()) {
            (Ok(copy), _) => copy,
            (Err(_), Err(panic)) => std::panic::resume_unwind(panic),
            (Err(_), Ok(())) => make(), // cannot be: it ends after it has given something
        }
    })
}

/// Gives free pages back to the system, when they are old enough. To be called after much was done that is not done often.
pub(crate) fn give_back_later() {
    // The allocator looks for pages to give back when a thread ends that has allocated something, such as its name. Without
    // the thread they are kept, which is no more than a pity.
    let _ = thread::Builder::new().name("memory".into()).spawn(|| thread::sleep(PURGED_AFTER));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_the_callers() {
        let here = thread::current().id();
        let made = apart(|| (vec![1, 2, 3], thread::current().id()));
        assert_eq!(made.0, [1, 2, 3]);
        assert_ne!(made.1, here);
    }

    #[test]
    #[should_panic(expected = "of its own")]
    fn a_panic_is_passed_on() {
        apart::<()>(|| panic!("of its own"));
    }
}
