//! What a client takes (RFC 9110 §12.5.3).

use crate::coding::Coding;

/// Weights of the codings, in thousandths; 0: not acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    weights: [Option<u16>; 3],
    any: Option<u16>,
    identity: Option<u16>,
}

impl Accepted {
    /// Takes what one line of the field says.
    pub fn add(&mut self, value: &[u8]) {
        for member in value.split(|byte| *byte == b',') {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
            let weight = weight.map_or(1000, thousandths);
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            match Coding::ALL.iter().position(|coding| is(coding.name()) || (*coding == Coding::Gzip && is("x-gzip"))) {
                Some(at) => self.weights[at] = Some(weight),
                None if name == b"*" => self.any = Some(weight),
                None if is("identity") => self.identity = Some(weight),
                None => {}
            }
        }
    }

    fn weight(&self, coding: Coding) -> u16 {
        self.weights[coding as usize].or(self.any).unwrap_or(0)
    }

    /// The best of what there is, the first of those that are equal; `None`: as it is.
    #[must_use]
    pub fn choose<T>(&self, forms: impl IntoIterator<Item = (Coding, T)>) -> Option<(Coding, T)> {
        // Acceptable, unless it says otherwise, and the last choice among equals.
        let as_it_is = self.identity.unwrap_or(0);
        let mut best: Option<(Coding, T)> = None;
        let mut highest = as_it_is.max(1) - 1;
        for (coding, form) in forms {
            let weight = self.weight(coding);
            if weight > highest {
                highest = weight;
                best = Some((coding, form));
            }
        }
        best
    }
}

/// RFC 9110 §12.4.2: up to three decimals; what is no weight counts as none.
fn thousandths(text: &[u8]) -> u16 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let weight: f32 = if text.len() > 5 { 0.0 } else { text.parse().unwrap_or(0.0) };
    if (0.0..=1.0).contains(&weight) { (weight * 1000.0).round() as u16 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, expected: Option<Coding>) {
        let mut accepted = Accepted::default();
        accepted.add(field.as_bytes());
        let chosen = accepted.choose(Coding::ALL.map(|coding| (coding, ()))).map(|(coding, ())| coding);
        assert_eq!(chosen, expected, "{field}");
    }

    #[test]
    fn the_heaviest_and_then_the_first() {
        check("", None);
        check("gzip", Some(Coding::Gzip));
        check("gzip, br", Some(Coding::Br));
        check("gzip, deflate, br, zstd", Some(Coding::Zstd));
        check("gzip;q=1.0, br;q=0.5", Some(Coding::Gzip));
        check("gzip;q=0.3,br ; q=0.300,zstd;Q=0.301", Some(Coding::Zstd));
        check("*", Some(Coding::Zstd));
        check("zstd;q=0, *", Some(Coding::Br));
        check("gzip;q=0", None);
        check("x-gzip", Some(Coding::Gzip));
        check("GZIP", Some(Coding::Gzip));
        check("identity", None);
        check("identity, gzip", Some(Coding::Gzip));
        check("identity;q=0.8, gzip;q=0.5", None);
        check("gzip;q=nonsense", None);
        check("gzip;q=-1", None);
        check("gzip;q=2", None);
        check("gzip;q=0.001", Some(Coding::Gzip));
    }
}
