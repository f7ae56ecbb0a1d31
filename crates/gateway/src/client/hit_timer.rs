//! Hits that are counted, and that share a reading of the clock.
//!
//! To read the clock costs a tenth of finding a hit among many that a client sent at once. So up to [`TIMED_TOGETHER`]
//! hits that follow each other have one: each is counted with the mean of their times, and the sum is theirs to the
//! nanosecond. A hit that comes alone is timed alone, and so is each that the access log wants to know of.

use std::ptr;

use crate::metrics::{Book, Verdict};
use crate::timing::Moment;

/// Hits of one route that follow each other on a connection and are timed by one reading of the clock.
const TIMED_TOGETHER: u64 = 4;

/// What is known of the time of hits that are being answered on one connection.
#[derive(Default)]
pub(crate) struct HitTimer<'a> {
    /// When what follows the last reading of the clock began.
    begun: Option<Moment>,
    /// Hits since then, and where they are counted.
    open: Option<(&'a Book, u64)>,
}

impl<'a> HitTimer<'a> {
    /// When what is looked at now began: at the latest now, at the earliest with the first hit of those that are timed
    /// together.
    #[inline]
    pub(crate) fn begun(&mut self) -> Moment {
        *self.begun.get_or_insert_with(Moment::now)
    }

    /// What follows began then. Nothing that came before is left to be timed.
    pub(crate) fn restart(&mut self, begun: Moment) {
        self.begun = Some(begun);
    }

    /// What follows is a hit that is counted in `book`.
    #[inline]
    pub(crate) fn turn_to(&mut self, book: &Book) {
        if self.open.is_some_and(|(open, _)| !ptr::eq(open, book)) {
            self.time();
        }
    }

    /// Counts a hit that has been answered.
    #[inline]
    pub(crate) fn count(&mut self, book: &'a Book, status: u16, sent_bytes: u64) {
        book.hit(Verdict::Hit, status, sent_bytes);
        let hits = self.open.map_or(0, |(_, hits)| hits) + 1;
        self.open = Some((book, hits));
        if hits >= TIMED_TOGETHER {
            self.time();
        }
    }

    /// Reads the clock for the hits that have not been timed. Returns how long they took, 0 without any.
    #[inline]
    pub(crate) fn time(&mut self) -> u64 {
        self.open.take().map_or(0, |(book, hits)| self.read_clock(book, hits))
    }

    fn read_clock(&mut self, book: &Book, hits: u64) -> u64 {
        let now = Moment::now();
        let took_ns = now.since(self.begun());
        book.hits_took(hits, took_ns);
        self.begun = Some(now);
        took_ns
    }

    /// When the first byte that is not a hit's was there, if there is one.
    #[inline]
    pub(crate) fn rest_begun(mut self) -> Option<Moment> {
        self.time();
        self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Registry, sums::Sums};

    /// The hits of routes that are answered in this order.
    #[track_caller]
    fn check(order: &str, readings: u64) {
        let registry = Registry::new(1);
        let series: Vec<_> = ["a", "b"].iter().map(|name| registry.series(name, name)).collect();
        let mut hit_timer = HitTimer::default();
        let begun = hit_timer.begun();
        let mut read = 0;
        for route in order.bytes() {
            let book = series[usize::from(route - b'a')].book(0);
            let before = hit_timer.begun;
            hit_timer.turn_to(book);
            hit_timer.count(book, 200, 10);
            read += u64::from(hit_timer.begun != before);
        }
        let open = u64::from(hit_timer.open.is_some());
        let end = hit_timer.rest_begun().unwrap();
        assert_eq!(read + open, readings, "{order}");
        let sums: Vec<_> = series.iter().map(|series| Sums::of(series)).collect();
        let count = |name: &str| order.matches(name).count() as u64;
        assert_eq!(sums.iter().map(|sums| sums.times.total.count()).collect::<Vec<_>>(), [count("a"), count("b")]);
        assert_eq!(
            sums.iter().map(|sums| sums.times.total.sum_ns()).sum::<u64>(),
            end.since(begun),
            "to the nanosecond"
        );
    }

    #[test]
    fn up_to_four_of_one_route_share_a_reading() {
        check("a", 1);
        check("aaaa", 1);
        check("aaaaa", 2);
        check("aaaaaaaaaa", 3);
        check("aabba", 3);
        check("abab", 4);
    }
}
