//! What was measured as pictures: [`Bars`] with intervals, [`Distribution`]s of times, [`Intervals`] of ratios,
//! [`Waterfall`]s of phases, [`Trend`]s over commits, [`Flame`] graphs. `pilotlight lab` and `pilotlight redis bench`
//! draw with it.
//!
//! Each is data that becomes a [`Picture`] of a wanted width; a picture is markup for a page, or a file of its own.
//! Colours are the variables of [`THEME`], so that a picture follows its page, and a file the reader's system, from
//! light to dark. No I/O, and no words but those it is given and the names of units.
//!
//! Invariant: no text is part of markup before it was escaped. ([`markup`])

#![forbid(unsafe_code)]

mod bars;
mod distribution;
mod flame;
mod intervals;
mod lines;
pub mod markup;
mod picture;
mod plain;
mod scale;
mod style;
mod text;
mod trend;
mod waterfall;

pub use bars::{Bar, Bars};
pub use distribution::{Curve, Distribution};
pub use flame::{Flame, MAX_DEPTH, Place};
pub use intervals::{Interval, Intervals, Tone};
pub use picture::{Kind, Picture, Range};
pub use style::{RULES, THEME};
pub use trend::{Line, Trend};
pub use waterfall::{Course, Waterfall};
