//! Replies as aligned columns.

use pilotlight_resp::Value;

use super::json;
use crate::words;

/// Cells are cut beyond so many characters.
const MAX_CELL_CHARS: usize = 120;

/// The reply as a table: maps have a row for each member, arrays of maps or arrays a row for each element.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Map(pairs) => {
            let rows = pairs.iter().map(|(key, item)| vec![cell(key), cell(item)]).collect();
            aligned(&[], rows)
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) if items.is_empty() => "(empty)\n".to_owned(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => match columns(items) {
            Some(names) => {
                let rows = items.iter().map(|item| row(item, &names)).collect();
                aligned(&names, rows)
            }
            None => aligned(&[], items.iter().enumerate().map(|(index, item)| numbered(index, item)).collect()),
        },
        Value::Attributed(attributed) => text(&attributed.value),
        other => format!("{}\n", cell(other)),
    }
}

/// Rows under their heading, columns as wide as they have to be. The last column is not padded.
pub(crate) fn aligned(heading: &[String], rows: Vec<Vec<String>>) -> String {
    let mut lines = rows;
    if !heading.is_empty() {
        lines.insert(0, heading.to_vec());
    }
    let mut widths: Vec<usize> = Vec::new();
    for line in &lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        push_line(&mut out, line, &widths);
        if index == 0 && !heading.is_empty() {
            let rules: Vec<_> = widths.iter().map(|width| "-".repeat((*width).max(1))).collect();
            push_line(&mut out, &rules, &widths);
        }
    }
    out
}

fn push_line(out: &mut String, cells: &[String], widths: &[usize]) {
    let start = out.len();
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(cell);
        let padding = width.saturating_sub(cell.chars().count()) + 2;
        out.extend(std::iter::repeat_n(' ', padding));
    }
    let end = out[start..].trim_end().len() + start;
    out.truncate(end);
    out.push('\n');
}

/// The names of the columns, if all elements are maps.
fn columns(items: &[Value]) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for item in items {
        let Value::Map(pairs) = item else { return None };
        for (key, _) in pairs {
            let name = cell(key);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Some(names)
}

fn row(item: &Value, names: &[String]) -> Vec<String> {
    let Value::Map(pairs) = item else { return vec![cell(item)] };
    let of = |name: &String| pairs.iter().find(|(key, _)| cell(key) == *name);
    names.iter().map(|name| of(name).map_or_else(String::new, |(_, value)| cell(value))).collect()
}

fn numbered(index: usize, item: &Value) -> Vec<String> {
    let mut line = vec![format!("{})", index + 1)];
    match item {
        Value::Array(cells) | Value::Set(cells) | Value::Push(cells) => line.extend(cells.iter().map(cell)),
        other => line.push(cell(other)),
    }
    line
}

/// One cell, in one line.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "(nil)".to_owned(),
        Value::Error(text) => format!("(error) {}", String::from_utf8_lossy(text)),
        Value::Simple(data) | Value::Bulk(data) | Value::Verbatim { text: data, .. } => readable(data),
        other => json::text(other, json::Strings::Utf8),
    };
    if text.chars().count() <= MAX_CELL_CHARS {
        return text;
    }
    let cut: String = text.chars().take(MAX_CELL_CHARS - 1).collect();
    format!("{cut}…")
}

/// Text as it is; what would break the line, or is none, with escapes.
fn readable(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => {
            let mut out = String::new();
            words::escape(&mut out, data);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn columns_are_aligned() {
        let map = Value::Map(vec![(bulk("name"), bulk("Ada")), (bulk("a\n"), Value::Array(vec![Value::Integer(1)]))]);
        assert_eq!(text(&map), "name  Ada\na\\n   [1]\n");
        let maps = Value::Array(vec![
            Value::Map(vec![(bulk("id"), Value::Integer(1)), (bulk("x"), Value::Null)]),
            Value::Map(vec![(bulk("id"), Value::Integer(100)), (bulk("y"), bulk("z"))]),
        ]);
        assert_eq!(text(&maps), "id   x      y\n---  -----  -\n1    (nil)\n100         z\n");
        let arrays = Value::Array(vec![Value::Array(vec![bulk("1-1"), bulk("a")]), bulk("b")]);
        assert_eq!(text(&arrays), "1)  1-1  a\n2)  b\n");
        assert_eq!(text(&Value::Array(vec![])), "(empty)\n");
        assert_eq!(text(&Value::Integer(3)), "3\n");
    }
}
