//! The static table (RFC 7541 Appendix A).

/// Names and values; the first has the index 1.
pub(crate) const STATIC_TABLE: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The index of `:status`, with the value 200.
const STATUS: usize = 8;

/// Longest name of the table.
const MAX_NAME: usize = 27;

/// Places of the table by the length of their names, and where those of each length begin in that order.
static BY_LENGTH: ([u8; 61], [u8; MAX_NAME + 2]) = by_length();

const fn by_length() -> ([u8; 61], [u8; MAX_NAME + 2]) {
    let (mut order, mut begins) = ([0; 61], [0; MAX_NAME + 2]);
    let (mut length, mut count) = (0, 0);
    while length <= MAX_NAME {
        begins[length] = count as u8;
        let mut place = 0;
        while place < 61 {
            if STATIC_TABLE[place].0.len() == length {
                order[count] = place as u8;
                count += 1;
            }
            place += 1;
        }
        length += 1;
    }
    begins[MAX_NAME + 1] = count as u8;
    (order, begins)
}

/// The index of a name, in lower case; 0 if it is not there. Of several, the first.
#[inline]
pub(crate) fn index_of_name(name: &[u8]) -> usize {
    let (order, begins) = &BY_LENGTH;
    if name.len() > MAX_NAME {
        return 0;
    }
    let places = &order[usize::from(begins[name.len()])..usize::from(begins[name.len() + 1])];
    let same = |place: &&u8| STATIC_TABLE[usize::from(**place)].0.as_bytes() == name;
    places.iter().find(same).map_or(0, |place| usize::from(*place) + 1)
}

/// The index of a whole `:status`, if it has one.
pub(crate) fn index_of_status(status: u16) -> Option<usize> {
    [200, 204, 206, 304, 400, 404, 500].iter().position(|known| *known == status).map(|place| STATUS + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes() {
        for (name, index) in [("accept", 19), ("age", 21), ("www-authenticate", 61), ("x-own", 0), ("", 0)] {
            assert_eq!(index_of_name(name.as_bytes()), index, "{name}");
        }
        for (place, (name, value)) in STATIC_TABLE.iter().enumerate().filter(|(_, entry)| entry.0 == ":status") {
            assert_eq!(index_of_status(value.parse().unwrap()), Some(place + 1), "{name}: {value}");
        }
        assert_eq!(index_of_status(201), None);
    }
}
