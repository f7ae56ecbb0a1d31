//! Replies as they came, apart from any code of the product: a tree of what the bytes say, written so that two replies
//! look the same if they are, but for the length of what was normalised.

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// All that is a line: `+OK`, `:1`, `-ERR …`, `$-1`, `_`, `#t`.
    Line(Vec<u8>),
    Bulk(u8, Vec<u8>),
    Items(u8, Vec<Reply>),
}

/// The first frame and its length, if all of it is there.
pub(super) fn parse(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, begin) = (&bytes[..end], end + 2);
    let kind = *line.first()?;
    let number = std::str::from_utf8(line.get(1..)?).ok().and_then(|text| text.parse::<i64>().ok());
    match (kind, number) {
        (b'$' | b'!' | b'=', Some(length @ 0..)) => {
            let length = usize::try_from(length).unwrap();
            let text = bytes.get(begin..begin + length)?;
            bytes.get(begin + length..begin + length + 2)?;
            Some((Reply::Bulk(kind, text.to_vec()), begin + length + 2))
        }
        (b'*' | b'~' | b'>' | b'%', Some(count @ 0..)) => {
            let count = if kind == b'%' { 2 * count } else { count };
            let (mut items, mut at) = (Vec::new(), begin);
            for _ in 0..count {
                let (item, length) = parse(bytes.get(at..)?)?;
                items.push(item);
                at += length;
            }
            Some((Reply::Items(kind, items), at))
        }
        _ => Some((Reply::Line(line.to_vec()), begin)),
    }
}

/// What is left out of a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blind {
    pub(super) numbers: bool,
    /// Replies that are nothing but a number.
    pub(super) counts: bool,
    pub(super) texts: bool,
    pub(super) sorted: bool,
}

impl Reply {
    /// The reply without what cannot be the same.
    pub(super) fn seen(self, blind: Blind, ports: &[(u16, u16)]) -> Self {
        let numbers = blind.numbers || (blind.counts && matches!(self, Self::Line(_)));
        self.normalised(Blind { numbers, ..blind }, ports)
    }

    fn normalised(self, blind: Blind, ports: &[(u16, u16)]) -> Self {
        match self {
            Self::Line(line) if line.starts_with(b":") => {
                let number = String::from_utf8_lossy(&line[1..]).into_owned();
                let port = ports.iter().find(|(local, _)| local.to_string() == number);
                match port {
                    _ if blind.numbers => Self::Line(b":N".to_vec()),
                    Some((_, real)) => Self::Line(format!(":{real}").into_bytes()),
                    None => Self::Line(line),
                }
            }
            Self::Line(line) => Self::Line(text(&line, ports)),
            Self::Bulk(kind, bytes) if blind.texts && bytes.len() > 2 => {
                Self::Bulk(kind, if bytes.starts_with(b"txt:") { b"txt:text".to_vec() } else { b"text".to_vec() })
            }
            Self::Bulk(kind, bytes) => {
                let is_number = !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
                let number = if blind.numbers && is_number { Some(b"N".to_vec()) } else { None };
                Self::Bulk(kind, number.unwrap_or_else(|| text(&bytes, ports)))
            }
            Self::Items(kind, items) => {
                let is_id = |before: Option<&Self>| before == Some(&Self::Bulk(b'$', b"id".to_vec()));
                let mut out: Vec<Self> = Vec::with_capacity(items.len());
                for item in items {
                    let item = match item {
                        // `HELLO` tells the number of the client.
                        Self::Line(line) if line.starts_with(b":") && is_id(out.last()) => Self::Line(b":N".to_vec()),
                        item => item.normalised(blind, ports),
                    };
                    out.push(item);
                }
                if blind.sorted {
                    out.sort_by_key(Self::shown);
                }
                Self::Items(kind, out)
            }
        }
    }

    /// What a string says.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Bulk(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => other.shown(),
        }
    }

    /// As it is compared, in one line.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Line(line) => line.escape_ascii().to_string(),
            Self::Bulk(kind, bytes) if bytes.len() > 400 => {
                let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                let (begin, end) = (bytes[..150].escape_ascii(), bytes[bytes.len() - 100..].escape_ascii());
                format!("{}\"{begin}…{end}\"({} {sum:x})", char::from(*kind), bytes.len())
            }
            Self::Bulk(kind, bytes) => format!("{}\"{}\"", char::from(*kind), bytes.escape_ascii()),
            Self::Items(kind, items) => {
                let items: Vec<String> = items.iter().map(Self::shown).collect();
                format!("{}[{}]", char::from(*kind), items.join(" "))
            }
        }
    }
}

/// Fields of `CLIENT LIST` that no two connections share.
const FIELDS: [&str; 14] = [
    "id",
    "addr",
    "laddr",
    "fd",
    "age",
    "idle",
    "qbuf",
    "qbuf-free",
    "argv-mem",
    "rbs",
    "rbp",
    "tot-mem",
    "redir",
    "multi-mem",
];

fn text(bytes: &[u8], ports: &[(u16, u16)]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let mut text = text.to_owned();
    for (local, real) in ports {
        text = text.replace(&format!("127.0.0.1:{local}"), &format!("127.0.0.1:{real}"));
    }
    if text.contains(" laddr=") {
        let lines = text.split('\n').map(|line| {
            let words = line.split(' ').map(|word| match word.split_once('=') {
                Some((name, _)) if FIELDS.contains(&name.trim_start_matches("txt:")) => format!("{name}=…"),
                _ => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        });
        text = lines.collect::<Vec<_>>().join("\n");
    }
    text.into_bytes()
}
