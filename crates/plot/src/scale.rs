//! From values to places, and where ticks are.

/// A scale whose values are at equal steps, or at equal factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Values, or their logarithms.
    from: f64,
    to: f64,
    place: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    /// From 0 to at least `most`, ending at a tick.
    pub(crate) fn linear(most: f64, place: (f64, f64)) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = step(most);
        Self { from: 0.0, to: (most / step - 1e-9).ceil() * step, place, logarithmic: false }
    }

    /// From 0 to `most` and no further, without ticks of its own.
    pub(crate) fn up_to(most: f64, place: (f64, f64)) -> Self {
        Self { from: 0.0, to: most, place, logarithmic: false }
    }

    /// From at most `least` to at least `most`, both above 0.
    pub(crate) fn logarithmic(least: f64, most: f64, place: (f64, f64)) -> Self {
        let valid = |value: f64| if value.is_finite() && value > 0.0 { value } else { 1.0 };
        let (from, to) = (valid(least).log10(), valid(most).log10());
        // Equal ends would leave no room.
        let (from, to) = if to - from < 0.05 { (from - 0.05, to + 0.05) } else { (from, to) };
        Self { from, to, place, logarithmic: true }
    }

    /// Where a value is; what is beyond an end is at it.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.place.0 + part * (self.place.1 - self.place.0)
    }

    /// The places of its two ends.
    pub(crate) fn ends(&self) -> (f64, f64) {
        self.place
    }

    /// Values that get a line.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            return self.logarithmic_ticks();
        }
        let step = step(self.to);
        let count = (self.to / step).round() as usize;
        (0..=count).map(|index| index as f64 * step).collect()
    }

    /// Powers of ten, with 2 and 5 between them where there is room, or finer where they alone would be too few.
    fn logarithmic_ticks(&self) -> Vec<f64> {
        const FINE: [f64; 14] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.1, 1.3];
        let factors: &[f64] = match self.to - self.from {
            decades if decades > 2.5 => &[1.0],
            decades if decades > 0.6 => &[1.0, 2.0, 5.0],
            decades if decades > 0.25 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            _ => &FINE,
        };
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let mut ticks: Vec<f64> = decades
            .flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)))
            .filter(|tick| (self.from - 1e-9..=self.to + 1e-9).contains(&tick.log10()))
            .collect();
        ticks.sort_by(f64::total_cmp);
        ticks
    }
}

/// 1, 2 or 5 times a power of ten: three to six of it make `most`.
fn step(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = match rough / power {
        f if f <= 1.0 => 1.0,
        f if f <= 2.0 => 2.0,
        f if f <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// A number at a tick: `0.05`, `2.5`, `40 k`, `1.2 M`.
pub(crate) fn tick(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    // Ticks have two significant digits; more is what arithmetic has left.
    let digits = if scaled == 0.0 { 0 } else { (1.0 - scaled.abs().log10().floor()).clamp(0.0, 9.0) as usize };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

/// Nanoseconds at a tick: `50 µs`.
pub(crate) fn time(nanoseconds: f64) -> String {
    let (unit, of) = match nanoseconds {
        ns if ns < 1e3 => ("ns", 1.0),
        ns if ns < 1e6 => ("µs", 1e3),
        ns if ns < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{} {unit}", tick(nanoseconds / of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_end_at_a_tick() {
        let scale = Scale::linear(17.3, (0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!((scale.at(0.0), scale.at(10.0), scale.at(99.0)), (0.0, 50.0, 100.0));
        assert_eq!(Scale::linear(0.0, (0.0, 1.0)).ticks().len(), 6);
        assert_eq!(Scale::linear(1.0, (0.0, 1.0)).ticks().len(), 6);
    }

    #[test]
    fn logarithmic_scales_have_ticks_for_every_range() {
        for (least, most) in [(1e3, 1e9), (3e4, 9e5), (0.4, 1.6), (0.97, 1.04), (5.0, 5.0)] {
            let ticks = Scale::logarithmic(least, most, (0.0, 1.0)).ticks();
            assert!((1..=12).contains(&ticks.len()), "{least} to {most}: {ticks:?}");
        }
        let scale = Scale::logarithmic(0.5, 2.0, (0.0, 100.0));
        assert!((scale.at(1.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.05, "0.05"),
            (0.1 + 0.2, "0.3"),
            (2.5, "2.5"),
            (500.0, "500"),
            (40_000.0, "40 k"),
            (1.2e6, "1.2 M"),
        ] {
            assert_eq!(tick(value), text);
        }
        for (value, text) in [(500.0, "500 ns"), (5e4, "50 µs"), (2e6, "2 ms"), (1e9, "1 s")] {
            assert_eq!(time(value), text);
        }
    }
}
