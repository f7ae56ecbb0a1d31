//! What a function says of its failure.

use serde_json::Value;

/// Bytes of an error that are read; the rest is thrown away.
pub const MAX_ERROR: usize = 256 * 1024;
/// Characters of a type, of a message, and of a line of a trace.
const MAX_TEXT: usize = 2000;
/// Lines of a trace.
const MAX_LINES: usize = 60;

/// An error of a function: of its initialisation, or of one invocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionError {
    /// Its type, such as `ValueError` or `Runtime.ImportModuleError`; empty if it says none.
    pub kind: String,
    /// Its message.
    pub message: String,
    /// Where it came from, as the function tells: the lines of a trace.
    pub trace: Vec<String>,
}

impl FunctionError {
    /// Reads the body of a call, and its field `Lambda-Runtime-Function-Error-Type`, each as far as it makes sense.
    #[must_use]
    pub fn read(kind: Option<&[u8]>, body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(cut);
        let of_field = kind.map(|kind| cut(&String::from_utf8_lossy(kind)));
        let message = match (&value, text("errorMessage")) {
            (_, Some(message)) => message,
            (Value::Null, None) => cut(&String::from_utf8_lossy(body)),
            (other, None) => cut(&other.to_string()),
        };
        let kind = text("errorType").filter(|kind| !kind.is_empty()).or(of_field).unwrap_or_default();
        Self { kind, message, trace: trace(&value) }
    }

    /// The lines that say what failed, the trace first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let said = self.to_string();
        self.trace.iter().map(String::as_str).chain([&*said]).flat_map(str::lines).map(str::to_owned).collect()
    }
}

impl std::fmt::Display for FunctionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&*self.kind, &*self.message) {
            ("", "") => f.write_str("no type and no message"),
            (kind, "") => f.write_str(kind),
            ("", message) => f.write_str(message),
            (kind, message) => write!(f, "{kind}: {message}"),
        }
    }
}

/// A list of lines (Python, Node), or of frames (Go, Ruby).
fn trace(value: &Value) -> Vec<String> {
    let Some(entries) = value.get("stackTrace").or_else(|| value.get("trace")).and_then(Value::as_array) else {
        return Vec::new();
    };
    let one = |entry: &Value| match entry {
        Value::String(text) => cut(text.trim_end()),
        other => cut(&other.to_string()),
    };
    entries.iter().take(MAX_LINES).map(one).collect()
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors() {
        let python = br#"{"errorMessage": "no", "errorType": "ValueError", "requestId": "1",
            "stackTrace": ["  File \"/app.py\", line 2, in handler\n    raise ValueError(\"no\")\n"]}"#;
        let error = FunctionError::read(Some(b"ValueError"), python);
        assert_eq!(error.to_string(), "ValueError: no");
        let lines = ["  File \"/app.py\", line 2, in handler", "    raise ValueError(\"no\")", "ValueError: no"];
        assert_eq!(error.lines(), lines);
        let error = FunctionError::read(Some(b"Unhandled"), b"not JSON");
        assert_eq!((error.to_string(), error.trace.len()), ("Unhandled: not JSON".to_owned(), 0));
        assert_eq!(FunctionError::read(None, b"").to_string(), "no type and no message");
        assert_eq!(FunctionError::read(None, b"[1]").to_string(), "[1]");
        assert_eq!(FunctionError::read(None, &[b'x'; 5000]).message.len(), MAX_TEXT);
    }
}
