//! Keys on the terminal that `pilotlight dev` was started on.

use std::io::{self, IsTerminal, Read};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Open,
    Restart,
    Quit,
}

/// The terminal, which gives keys out as they are pressed until this is dropped.
pub(super) struct Keys(Termios);

impl Keys {
    /// `None` without a terminal, or if another program has it.
    pub(super) fn listen(mut on: impl FnMut(Key) + Send + 'static) -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() || tcgetpgrp(&stdin).ok() != Some(rustix::process::getpgrp()) {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut keys = before.clone();
        // Ctrl-C stays a signal.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &keys)?;
        let keys = Self(before);
        let read = move || {
            for byte in io::stdin().lock().bytes() {
                match byte {
                    Ok(b'o' | b'O') => on(Key::Open),
                    Ok(b'r' | b'R') => on(Key::Restart),
                    Ok(b'q' | b'Q') => on(Key::Quit),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        };
        std::thread::Builder::new().name("keys".into()).spawn(read)?;
        Ok(Some(keys))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
