//! The distribution of latencies as a picture: percentile to the right, each step ten times rarer than the one before; latency upwards, logarithmic.

use std::fmt::Write;

use super::measure::Row;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 140.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 60.0;
/// Up to 99.999 %.
const NINES: f64 = 5.0;
const POINTS: u32 = 300;
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const STEPS: [(&str, f64); 6] =
    [("0 %", 0.0), ("90 %", 1.0), ("99 %", 2.0), ("99.9 %", 3.0), ("99.99 %", 4.0), ("99.999 %", 5.0)];

/// The picture of all rows.
pub(crate) fn svg(rows: &[Row]) -> String {
    let measured = || rows.iter().filter(|row| !row.tally.latency.is_empty()).map(|row| &row.tally.latency);
    let lowest = measured().map(|latency| latency.value_at_percentile(0.0)).min().unwrap_or(1_000);
    let highest = measured().map(hdrhistogram::Histogram::max).max().unwrap_or(1_000_000);
    let scale = Scale { low: decade(lowest, f64::floor), high: decade(highest, f64::ceil) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    scale.write_grid(&mut svg);
    for (at, row) in rows.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        scale.write_curve(&mut svg, row, colour);
        let y = TOP + 16.0 + 22.0 * at as f64;
        let x = WIDTH - RIGHT + 14.0;
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>", y - 6.0);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 20.0, escaped(&row.name));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Exponents of ten, of nanoseconds.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn x(nines: f64) -> f64 {
        LEFT + nines.clamp(0.0, NINES) / NINES * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, nanoseconds: f64) -> f64 {
        let part = (nanoseconds.max(1.0).log10() - self.low) / (self.high - self.low).max(1.0);
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }

    fn write_grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (name, nines) in STEPS {
            let x = Self::x(nines);
            let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>");
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", bottom + 20.0);
        }
        for exponent in self.low as i32..=self.high as i32 {
            let y = self.y(10_f64.powi(exponent));
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                unit(exponent)
            );
        }
        let middle = (LEFT + right) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">percentile of commands</text>",
            HEIGHT - 14.0
        );
    }

    fn write_curve(&self, svg: &mut String, row: &Row, colour: &str) {
        let latency = &row.tally.latency;
        if latency.is_empty() {
            return;
        }
        // No further than there were commands.
        let last = (latency.len() as f64).log10().min(NINES);
        let mut path = String::new();
        for point in 0..=POINTS {
            let nines = last * f64::from(point) / f64::from(POINTS);
            let value = latency.value_at_quantile(1.0 - 10_f64.powf(-nines));
            let command = if point == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", Self::x(nines), self.y(value as f64));
        }
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    }
}

fn decade(nanoseconds: u64, round: fn(f64) -> f64) -> f64 {
    round((nanoseconds.max(1) as f64).log10())
}

fn unit(exponent: i32) -> String {
    let (name, of) = match exponent {
        ..3 => ("ns", 0),
        3..6 => ("µs", 3),
        6..9 => ("ms", 6),
        _ => ("s", 9),
    };
    format!("{} {name}", 10_i64.pow(exponent.saturating_sub(of).max(0).unsigned_abs()))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
