//! Directives with words and a block, as nginx and Caddy write them, and the units that their values have.

/// Blocks within blocks.
pub(crate) const MAX_DEPTH: usize = 32;

/// A directive and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    /// None: it has no braces.
    pub(crate) block: Option<Vec<Directive>>,
}

impl Directive {
    /// An argument; empty if there are fewer.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// What stands between its braces.
    pub(crate) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The first directive of this name between its braces.
    pub(crate) fn child(&self, name: &str) -> Option<&Directive> {
        self.children().iter().find(|child| child.name == name)
    }

    /// The last line of it that something stands in.
    pub(crate) fn last_line(&self) -> usize {
        self.children().iter().map(Directive::last_line).max().unwrap_or(self.line).max(self.line)
    }

    /// Its name and arguments, cut short.
    pub(crate) fn label(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args).filter(|word| !word.is_empty());
        words.map(String::as_str).collect::<Vec<_>>().join(" ").chars().take(60).collect()
    }
}

/// Milliseconds as a time of a `pilotlight.toml`, in the largest unit that tells them exactly.
pub(crate) fn time(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    match units.iter().find(|(_, unit)| ms >= *unit && ms.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// `90`, `90s`, `1m30s` or `1h 30m` in milliseconds; a bare number is of seconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut sum = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let unit: String = rest[digits..].chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        let factor = match unit.as_str() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(factor)?)?;
        rest.drain(..digits + unit.len());
    }
    Some(sum)
}

/// `10m`, `8k`, `1g` or a number of bytes, as nginx writes sizes, as a size of a `pilotlight.toml`.
pub(crate) fn nginx_size(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(number) => (number, lower.get(number.len()..)?),
        None => (lower.as_str(), ""),
    };
    let unit = match unit {
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => "B",
    };
    whole(number).map(|number| format!("{number}{unit}"))
}

/// `10MB`, `8KiB` or a number of bytes, as Caddy writes sizes, as a size of a `pilotlight.toml`.
pub(crate) fn caddy_size(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match text.get(digits..)?.trim().to_ascii_lowercase().as_str() {
        "" | "b" => "B",
        "k" | "kb" => "kB",
        "m" | "mb" => "MB",
        "g" | "gb" => "GB",
        "kib" | "ki" => "KiB",
        "mib" | "mi" => "MiB",
        "gib" | "gi" => "GiB",
        _ => return None,
    };
    whole(text.get(..digits)?).map(|number| format!("{number}{unit}"))
}

fn whole(number: &str) -> Option<u64> {
    number.parse().ok().filter(|number| (1..=1 << 40).contains(number))
}

/// A path of a route: `/api/` as `/api`, `/` as it is. None for what no path of a route may have.
pub(crate) fn route_path(text: &str) -> Option<String> {
    let path = text.trim_end_matches('/');
    let path = if path.is_empty() { "/" } else { path };
    let is_good = text.starts_with('/')
        && path.len() <= 1024
        && !path.contains("//")
        && !path.contains(|c: char| "*~!%{}$?#\"\\^()[]|<>`".contains(c) || c.is_whitespace() || !c.is_ascii())
        && !path.split('/').any(|segment| matches!(segment, "." | ".."));
    is_good.then(|| path.to_owned())
}

/// An address or a network with no bits beyond its prefix.
pub(crate) fn is_network(text: &str) -> bool {
    use std::net::IpAddr;
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, bits.parse::<u32>().ok()),
        None => (text, Some(u32::MAX)),
    };
    let (Ok(address), Some(bits)) = (address.parse::<IpAddr>(), bits) else { return false };
    let (number, all) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    match bits {
        u32::MAX => true,
        bits if bits > all => false,
        0 => number == 0,
        bits => number.checked_shl(bits).unwrap_or(0) == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_paths_and_networks() {
        for (text, expected) in
            [("90", Some("90s")), ("1m30s", Some("90s")), ("1h 30m", Some("90m")), ("250ms", Some("250ms"))]
        {
            assert_eq!(milliseconds(text).map(time).as_deref(), expected, "{text}");
        }
        for text in ["", "s", "1x", "99999999999999999999s", "-1"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
        assert_eq!(
            [nginx_size("10m"), nginx_size("8K"), nginx_size("512"), nginx_size("0"), nginx_size("1x")],
            [Some("10MiB".to_owned()), Some("8KiB".to_owned()), Some("512B".to_owned()), None, None]
        );
        assert_eq!([caddy_size("10MB").as_deref(), caddy_size("1GiB").as_deref()], [Some("10MB"), Some("1GiB")]);
        assert_eq!([route_path("/api/").as_deref(), route_path("/").as_deref()], [Some("/api"), Some("/")]);
        for text in ["api", "/a*", "/a/../b", "/a b", "/ü"] {
            assert_eq!(route_path(text), None, "{text}");
        }
        for (text, expected) in [
            ("10.0.0.0/8", true),
            ("10.0.0.1/8", false),
            ("::1", true),
            ("2001:db8::/32", true),
            ("0.0.0.0/0", true),
            ("1.2.3.4/33", false),
            ("unix:", false),
        ] {
            assert_eq!(is_network(text), expected, "{text}");
        }
    }
}
