//! What the books of all workers say together.

use super::{Book, CLASSES, Counter, Distribution, PHASES, Series, Verdict};
use crate::admission::refusal::Refused;
use crate::timing::Layer;
use pilotlight_cache::Unstored;

/// The numbers of one series, or of several.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    pub(crate) answers: [[u64; Verdict::ALL.len()]; CLASSES.len()],
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) times: Times,
    pub(crate) layers: [Distribution; Layer::ALL.len()],
    pub(crate) phases: [Distribution; PHASES.len()],
    pub(crate) unstored: [u64; Unstored::ALL.len()],
    pub(crate) refused: [u64; Refused::ALL.len()],
}

/// How long requests took, from first byte to last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    pub(crate) total: Distribution,
    /// Of those that waited for a start.
    pub(crate) cold: Distribution,
}

impl Times {
    pub(crate) fn add(&mut self, series: &Series) {
        series.all().for_each(|book| self.add_book(book));
    }

    fn add_book(&mut self, book: &Book) {
        self.cold.add(&book.cold); // first, so that it is a part of the total
        self.total.add(&book.total);
        self.total.add(&book.hits);
    }
}

impl Series {
    /// Answers, and requests whose client went before there was one.
    pub(crate) fn requests(&self) -> u64 {
        self.all().flat_map(|book| book.answers.iter().flatten()).map(Counter::value).sum()
    }
}

/// Counts without distributions: cheap enough for every second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) verdicts: [u64; Verdict::ALL.len()],
    pub(crate) classes: [u64; CLASSES.len()],
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) layers_ns: [u64; Layer::ALL.len()],
    pub(crate) unstored: [u64; Unstored::ALL.len()],
    pub(crate) refused: [u64; Refused::ALL.len()],
}

impl Counts {
    pub(crate) fn add(&mut self, series: &Series) {
        for book in series.all() {
            self.ended += book.ended.value();
            self.begun += book.begun.value();
            for (class, counters) in self.classes.iter_mut().zip(&book.answers) {
                for (verdict, counter) in self.verdicts.iter_mut().zip(counters) {
                    let count = counter.value();
                    *verdict += count;
                    *class += count;
                }
            }
            self.layers_ns.iter_mut().zip(&book.layers).for_each(|(sum, layer)| *sum += layer.sum_ns());
            self.layers_ns[Layer::Cache as usize] += book.hits.sum_ns();
            self.unstored.iter_mut().zip(&book.unstored).for_each(|(sum, counter)| *sum += counter.value());
            self.refused.iter_mut().zip(&book.refused).for_each(|(sum, counter)| *sum += counter.value());
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.classes.iter().sum()
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.begun.saturating_sub(self.ended)
    }
}

impl Sums {
    pub(crate) fn of(series: &Series) -> Self {
        let mut sums = Self::default();
        sums.add(series);
        sums
    }

    pub(crate) fn add(&mut self, series: &Series) {
        series.all().for_each(|book| self.add_book(book));
    }

    fn add_book(&mut self, book: &Book) {
        // Ends first: a request that ends meanwhile is then still in flight, not ended before it began.
        self.ended += book.ended.value();
        self.begun += book.begun.value();
        // Before their times: those of every request that is counted here are there.
        for (sums, counters) in self.answers.iter_mut().zip(&book.answers) {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.value());
        }
        self.received_bytes += book.received_bytes.value();
        self.sent_bytes += book.sent_bytes.value();
        self.times.add_book(book);
        self.layers.iter_mut().zip(&book.layers).for_each(|(sum, layer)| sum.add(layer));
        self.layers[Layer::Cache as usize].add(&book.hits);
        self.phases.iter_mut().zip(&book.phases).for_each(|(sum, phase)| sum.add(phase));
        self.refused.iter_mut().zip(&book.refused).for_each(|(sum, counter)| *sum += counter.value());
        self.unstored.iter_mut().zip(&book.unstored).for_each(|(sum, counter)| *sum += counter.value());
    }

    /// Answers, and requests whose client went before there was one.
    pub(crate) fn requests(&self) -> u64 {
        self.answers.iter().flatten().sum()
    }

    pub(crate) fn with_verdict(&self, verdict: Verdict) -> u64 {
        self.answers.iter().map(|class| class[verdict as usize]).sum()
    }

    pub(crate) fn with_class(&self, class: usize) -> u64 {
        self.answers[class].iter().sum()
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.begun.saturating_sub(self.ended)
    }
}
