//! Numbers and tables as text, for the terminal and for Markdown.

/// A table: the first column is text, the others are numbers.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// One more row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// With headings that are known when it is made.
    #[must_use]
    pub fn of(headings: Vec<String>) -> Self {
        Self { rows: vec![headings] }
    }

    /// One more row, with as many cells as there are headings.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether there is nothing below the headings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Headings and rows.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// As GitHub's Markdown, which is readable as it stands.
    #[must_use]
    pub fn markdown(&self) -> String {
        let cell = |text: &str, width: usize, index: usize| pad(&text.replace('|', "\\|"), width, index);
        let widths = self.widths();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(|(i, (c, w))| cell(c, *w, i)).collect();
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
            if number == 0 {
                let rule = |(index, width): (usize, &usize)| match index {
                    0 => "-".repeat(width + 2),
                    _ => format!("{}:", "-".repeat(width + 1)),
                };
                out.push_str(&format!("|{}|\n", widths.iter().enumerate().map(rule).collect::<Vec<_>>().join("|")));
            }
        }
        out
    }

    /// For a terminal: columns and a line below the headings.
    #[must_use]
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(|(i, (c, w))| pad(c, *w, i)).collect();
            out.push_str(cells.join("  ").trim_end());
            out.push('\n');
            if number == 0 {
                out.push_str(&"─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)));
                out.push('\n');
            }
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        (0..columns).map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect()
    }
}

fn pad(text: &str, width: usize, column: usize) -> String {
    if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

/// Three significant digits at most, four before the point: `0.0421`, `3.21`, `12.3`, `1240`.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        v if v < 0.1 => 4,
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    let digits = if value.is_finite() { digits } else { 0 };
    format!("{value:.digits$}")
}

/// [`number`], or a dash.
#[must_use]
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}

/// Seconds since 1970 as RFC 3339 in UTC.
#[must_use]
pub fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let mut table = Table::new(["case", "mean ms"]);
        table.row(["pipe | warm".into(), number(3.214)]);
        table.row(["http".into(), number(12.34)]);
        assert_eq!(
            table.markdown(),
            "| case        | mean ms |\n|-------------|--------:|\n| pipe \\| warm |    3.21 |\n| http        |    12.3 |\n"
        );
        assert_eq!(
            table.text(),
            "case         mean ms\n────────────────────\npipe | warm     3.21\nhttp            12.3\n"
        );
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(0.0, "0"), (0.04213, "0.0421"), (0.4213, "0.421"), (3.214, "3.21"), (12.34, "12.3"), (1240.4, "1240")]
        {
            assert_eq!(number(value), text);
        }
        assert_eq!(maybe(None), "–");
    }

    #[test]
    fn timestamps() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_763_776_801, "2025-11-22T02:00:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }
}
