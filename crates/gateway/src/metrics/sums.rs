//! What the books of all workers say together.

use super::{Book, CLASSES, Distribution, PHASES, Series, Verdict};
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
    pub(crate) total: Distribution,
    pub(crate) layers: [Distribution; Layer::ALL.len()],
    pub(crate) phases: [Distribution; PHASES.len()],
    pub(crate) unstored: [u64; Unstored::ALL.len()],
    pub(crate) refused: [u64; Refused::ALL.len()],
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
        self.total.add(&book.total);
        self.total.add(&book.hits);
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
