//! Sections and values of a `pilotlight.toml`.

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Truth(bool),
    List(Vec<String>),
    Numbers(Vec<u64>),
    Table(Vec<(String, Value)>),
    Tables(Vec<Vec<(String, Value)>>),
}

/// The keys of a section, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section(Vec<(&'static str, Value)>);

impl Section {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The entries of a key that is a table.
    pub(crate) fn table(&self, key: &str) -> Option<&[(String, Value)]> {
        match self.get(key) {
            Some(Value::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// Sets a key, in the place of what it was.
    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    pub(crate) fn text(&mut self, key: &'static str, value: impl Into<String>) {
        self.set(key, Value::Text(value.into()));
    }

    /// Adds an entry to a table.
    pub(crate) fn entry(&mut self, key: &'static str, name: impl Into<String>, value: impl Into<String>) {
        let mut table = match self.get(key) {
            Some(Value::Table(table)) => table.clone(),
            _ => Vec::new(),
        };
        let name = name.into();
        table.retain(|(other, _)| *other != name);
        table.push((name, Value::Text(value.into())));
        self.set(key, Value::Table(table));
    }

    /// Adds an entry of any type to a table, in the place of what it was.
    pub(crate) fn insert(&mut self, key: &'static str, name: &str, value: Value) {
        let mut table = match self.get(key) {
            Some(Value::Table(table)) => table.clone(),
            _ => Vec::new(),
        };
        match table.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => table.push((name.to_owned(), value)),
        }
        self.set(key, Value::Table(table));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| *name != key);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    /// Takes over all keys of another.
    pub(crate) fn extend(&mut self, other: Section) {
        for (key, value) in other.0 {
            self.set(key, value);
        }
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.text(key, value);
        self
    }
}

/// The lines of a section.
pub(crate) fn keys(section: &Section) -> String {
    section.0.iter().map(|(key, value)| format!("{key} = {}\n", written(value))).collect()
}

fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(number) => number.min(&(i64::MAX as u64)).to_string(),
        Value::Truth(truth) => truth.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", ")),
        Value::Numbers(list) => format!("[{}]", list.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => braces(table),
        Value::Tables(tables) => {
            format!("[{}]", tables.iter().map(|table| braces(table)).collect::<Vec<_>>().join(", "))
        }
    }
}

fn braces(table: &[(String, Value)]) -> String {
    let entries = table.iter().map(|(name, value)| format!("{} = {}", quoted(name), written(value)));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
