//! `Server-Timing` (W3C): where the time went until the head of the response, in milliseconds, to the nanosecond.

use std::fmt::Write;

use http::{HeaderName, HeaderValue};

use crate::options::ServerTiming;
use crate::response::ResponseFields;
use crate::timing::{Layer, Timeline, nanos};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// The request's field that asks for it; its value does not count.
pub(crate) const ASKS: HeaderName = HeaderName::from_static(ASKS_NAME);
pub(crate) const ASKS_NAME: &str = "x-pilotlight-timing";

/// Whether the response to a request with these fields has it.
pub(crate) fn is_wanted(setting: ServerTiming, has_field: impl FnOnce(&HeaderName) -> bool) -> bool {
    match setting {
        ServerTiming::Never => false,
        ServerTiming::OnRequest => has_field(&ASKS),
        ServerTiming::Always => true,
    }
}

/// Adds it behind what the service says of itself.
pub(crate) fn append_to(fields: &mut ResponseFields, timeline: &Timeline) {
    if let Ok(value) = HeaderValue::from_str(&text(timeline)) {
        fields.append(SERVER_TIMING, value);
    }
}

fn text(timeline: &Timeline) -> String {
    let mut text = String::with_capacity(160);
    let mut metric = |name: &str, ns: u64| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{name};dur={}.{:06}, ", ns / 1_000_000, ns % 1_000_000);
    };
    for layer in [Layer::Parse, Layer::Route, Layer::Cache, Layer::Queue, Layer::Start, Layer::Service] {
        let spent = timeline.spent_ns(layer);
        match (layer, timeline.start()) {
            // A failed start has no phases.
            (Layer::Start, Some(phases)) => {
                let parts = [phases.spawn, phases.connect, phases.ready].map(nanos);
                ["spawn", "connect", "ready"].into_iter().zip(parts).for_each(|(name, ns)| metric(name, ns));
                let rest = spent - parts.iter().sum::<u64>();
                if rest > 0 {
                    metric("start", rest); // an earlier try
                }
            }
            _ if spent > 0 => metric(layer.name(), spent),
            _ => {}
        }
    }
    metric("total", timeline.total_ns());
    text.truncate(text.len() - 2);
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilotlight_supervisor::StartPhases;

    use super::*;
    use crate::timing::Moment;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn warm_and_cold() {
        let begun = Moment::now();
        let timeline = Timeline::new(begun);
        timeline.end_phase(Layer::Parse, begun + Duration::from_nanos(12_345));
        timeline.end_phase(Layer::Service, begun + ms(3));
        assert_eq!(text(&timeline), "parse;dur=0.012345, service;dur=2.987655, total;dur=3.000000");
        let timeline = Timeline::new(begun);
        timeline.end_start(StartPhases { queue: ms(1), spawn: ms(2), connect: ms(40), ready: ms(1) });
        timeline.end_phase(Layer::Service, begun + ms(50));
        assert_eq!(
            text(&timeline),
            "queue;dur=1.000000, spawn;dur=2.000000, connect;dur=40.000000, ready;dur=1.000000, service;dur=6.000000, total;dur=50.000000"
        );
    }

    #[test]
    fn only_for_those_who_ask() {
        for (setting, expected) in [
            (ServerTiming::Never, (false, false)),
            (ServerTiming::OnRequest, (true, false)),
            (ServerTiming::Always, (true, true)),
        ] {
            assert_eq!((is_wanted(setting, |_| true), is_wanted(setting, |_| false)), expected);
        }
    }
}
