//! Where texts fit: widths are estimated, as no font is at hand.

use std::ops::RangeInclusive;

/// Size of all texts, in units of the picture.
pub(crate) const SIZE: f64 = 12.0;
/// From one line to the next.
pub(crate) const LINE: f64 = 17.0;
/// Of a character, on average; wide fonts (DejaVu Sans) have it, narrow ones less.
const CHARACTER: f64 = SIZE * 0.62;

/// How wide a text is at most, for most texts.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// The text, or its beginning and `…`, in at most this width.
pub(crate) fn fitted(text: &str, wanted: f64) -> String {
    if width(text) <= wanted {
        return text.to_owned();
    }
    let room = ((wanted / CHARACTER) as usize).saturating_sub(1);
    let kept: String = text.chars().take(room).collect();
    format!("{}…", kept.trim_end())
}

/// The text in lines of at most this width, broken at spaces; the last of `max_lines` ends with `…` where there is
/// more.
pub(crate) fn wrapped(text: &str, wanted: f64, max_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + CHARACTER <= wanted => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > max_lines {
        let rest = lines.split_off(max_lines - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| fitted(line, wanted)).collect()
}

/// Moves places apart until neighbours are `gap` from each other, within these bounds; their order stays.
pub(crate) fn spread(places: &[f64], gap: f64, within: RangeInclusive<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut spread = places.to_vec();
    let mut least = *within.start();
    for index in &order {
        spread[*index] = spread[*index].max(least);
        least = spread[*index] + gap;
    }
    let mut most = *within.end();
    for index in order.iter().rev() {
        spread[*index] = spread[*index].min(most);
        most = spread[*index] - gap;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fitted("short", 100.0), "short");
        let cut = fitted("a name that is much too long", 80.0);
        assert!(cut.ends_with('…') && width(&cut) <= 80.0, "{cut}");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", width("one two"), 2), ["one two", "three"]);
        let lines = wrapped("one two three four five six", width("one two"), 2);
        assert_eq!(lines, ["one two", "three…"]);
        assert!(wrapped(&"x".repeat(500), 100.0, 2).iter().all(|line| width(line) <= 100.0));
        assert_eq!(wrapped("", 100.0, 2), [""; 0]);
    }

    #[test]
    fn places_move_apart_and_stay_inside() {
        assert_eq!(spread(&[10.0, 11.0, 50.0], 10.0, 0.0..=100.0), [10.0, 20.0, 50.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, 0.0..=100.0), [100.0, 90.0]);
        assert_eq!(spread(&[], 10.0, 0.0..=1.0), [0.0; 0]);
    }
}
