//! What `perf script` prints, as flame graphs: of each look at a thread a line with its name, its ids, the time and the
//! event, then its calls, the innermost first, then an empty line.

use std::collections::HashMap;

use pilotlight_plot::{Flame, Place};

use super::STOPS;

/// When it goes on.
const GOES_ON: &str = "PERF_RECORD_SWITCH IN";

/// How often each stack was seen.
pub(super) fn stacks(text: &str, title: &str) -> Flame {
    let mut flame = Flame::new(title, "samples");
    for look in looks(text).filter(|look| !look.event.starts_with("PERF_RECORD")) {
        flame.add(look.calls(), 1.0);
    }
    flame
}

/// How long each thread did not run, by what it stopped in.
pub(super) fn waits(text: &str, title: &str) -> Flame {
    let mut flame = Flame::new(title, "ms");
    let mut stopped: HashMap<&str, Look<'_>> = HashMap::new();
    for look in looks(text) {
        if look.event.starts_with(STOPS) {
            stopped.insert(look.thread, look);
        } else if look.event.starts_with(GOES_ON)
            && let Some(stop) = stopped.remove(look.thread)
        {
            flame.add(stop.calls(), (look.seconds - stop.seconds) * 1e3);
        }
    }
    flame
}

/// A look at a thread.
struct Look<'t> {
    /// The name of the thread.
    name: &'t str,
    /// `PID/TID`.
    thread: &'t str,
    seconds: f64,
    event: &'t str,
    /// The innermost first.
    frames: Vec<&'t str>,
}

impl<'t> Look<'t> {
    /// The thread, then its calls, the outermost first.
    fn calls(&self) -> impl Iterator<Item = (&'t str, Place)> {
        let frames = self.frames.iter().rev().filter_map(|line| frame(line));
        [(self.name, Place::Program)].into_iter().chain(frames)
    }
}

fn looks(text: &str) -> impl Iterator<Item = Look<'_>> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        loop {
            let Some(mut look) = head(lines.next()?) else { continue };
            while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
                look.frames.push(line);
            }
            return Some(look);
        }
    })
}

/// `a name 123/124  4669.372719: cpu-clock: `
fn head(line: &str) -> Option<Look<'_>> {
    if line.starts_with('\t') {
        return None;
    }
    let is_thread = |word: &str| {
        word.split_once('/').is_some_and(|(pid, tid)| [pid, tid].iter().all(|id| id.parse::<u32>().is_ok()))
    };
    let thread = line.split_whitespace().find(|word| is_thread(word))?;
    let (name, rest) = line.split_once(thread)?;
    let (seconds, event) = rest.split_once(": ")?;
    let seconds = seconds.trim().parse().ok()?;
    Some(Look { name: name.trim(), thread, seconds, event: event.trim(), frames: Vec::new() })
}

/// `\t  29f911 SHA256_Update (/usr/lib/libcrypto.so.3)`; a call without a name has that of its file.
fn frame(line: &str) -> Option<(&str, Place)> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (name, file) = rest.rsplit_once(" (")?;
    let file = file.trim_end_matches(')');
    let place = if file.starts_with("[kernel") || file.ends_with(".ko") { Place::Kernel } else { Place::Program };
    let name = name.split_once("@@").map_or(name, |(name, _)| name);
    let base = file.rsplit('/').next().unwrap_or(file);
    Some((if name == "[unknown]" { base } else { name }, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: &str = "\
worker 0 12/13  4669.372719: cpu-clock:ppp: 
\tffffffff8220043e do_nanosleep ([kernel.kallsyms])
\t           cf503 clock_nanosleep@@GLIBC_2.2.5 (/usr/lib/libc.so.6)
\t          29c2d0 [unknown] (/usr/lib/libcrypto.so.3)

redis-server 14/14  4669.5: cpu-clock:ppp: 
\t            8497 <a::B as c (d)>::e (/bin/redis-server)
";
    const WAITS: &str = "\
a 1/1  10.000: sched:sched_switch: 
\tffffffff821f8b58 schedule ([kernel.kallsyms])
\t           cf503 read (/usr/lib/libc.so.6)

a 1/1  10.001: PERF_RECORD_SWITCH OUT        
b 1/2  10.002: PERF_RECORD_SWITCH IN         
a 1/1  10.250: PERF_RECORD_SWITCH IN         
a 1/1  10.300: sched:sched_switch: 
\tffffffff821f8b58 schedule ([kernel.kallsyms])
";

    #[test]
    fn stacks_are_read_from_their_outermost_call_on() {
        let looks: Vec<_> = looks(STACKS).collect();
        let calls: Vec<Vec<_>> = looks.iter().map(|look| look.calls().collect()).collect();
        let (program, kernel) = (Place::Program, Place::Kernel);
        let wanted = [
            vec![
                ("worker 0", program),
                ("libcrypto.so.3", program),
                ("clock_nanosleep", program),
                ("do_nanosleep", kernel),
            ],
            vec![("redis-server", program), ("<a::B as c (d)>::e", program)],
        ];
        assert_eq!(calls, wanted);
        assert!((stacks(STACKS, "all").total() - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_wait_lasts_until_the_thread_goes_on() {
        let flame = waits(WAITS, "waiting");
        assert!((flame.total() - 250.0).abs() < 1e-6, "{}", flame.total());
    }
}
