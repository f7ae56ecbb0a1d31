//! Waiting for a moment, to within some microseconds: the runtime's own timer counts milliseconds.

#[cfg(target_os = "linux")]
pub(crate) use linux::Pacer;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Pacer;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    /// The kernel's timer.
    pub(crate) struct Pacer(AsyncFd<OwnedFd>);

    impl Pacer {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe, for types that change their descriptor; an OwnedFd does not"
            )]
            AsyncFd::new(timer).map(Self)
        }

        /// Waits until `moment`; not at all if that has passed.
        pub(crate) async fn until(&self, moment: Instant) -> io::Result<()> {
            let wait = moment.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            let value = Timespec::try_from(wait).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let interval =
                Timespec::try_from(Duration::ZERO).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let timer = Itimerspec { it_interval: interval, it_value: value };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &timer)?;
            loop {
                let mut guard = self.0.readable().await?;
                match guard.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0_u8; 8])?)) {
                    Ok(read) => return read.map(|_| ()),
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod other {
    use std::io;
    use std::time::Instant;

    /// The runtime's timer.
    pub(crate) struct Pacer;

    impl Pacer {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn until(&self, moment: Instant) -> io::Result<()> {
            tokio::time::sleep_until(moment.into()).await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    const WAIT: Duration = Duration::from_millis(5);

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_kernel_s_timer_waits_until_the_moment() {
        let pacer = super::linux::Pacer::new().unwrap();
        let (begin, moment) = (Instant::now(), Instant::now() + WAIT);
        pacer.until(moment).await.unwrap();
        assert!(Instant::now() >= moment);
        pacer.until(begin).await.unwrap(); // a moment that has passed
    }

    #[tokio::test]
    async fn the_runtime_s_timer_waits_until_the_moment() {
        let pacer = super::other::Pacer::new().unwrap();
        let (begin, moment) = (Instant::now(), Instant::now() + WAIT);
        pacer.until(moment).await.unwrap();
        assert!(Instant::now() >= moment);
        pacer.until(begin).await.unwrap(); // a moment that has passed
    }
}
