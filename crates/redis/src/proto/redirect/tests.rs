//! The ancestor's cases of `ClusterCommandSpec`, by their names, and those that it lacked.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::config::AddressMap;

fn detect(text: &str) -> Result<Option<Redirect>, RedirectError> {
    let seed = NodeAddress::tcp("seed.example.com", 7000);
    Redirect::detect(&ServerError::parse(text.as_bytes()), &Asked::plain(&seed))
}

#[track_caller]
fn check(text: &str, kind: RedirectKind, host: &str, port: u16) {
    let announced = NodeAddress::tcp(host, port);
    assert_eq!(detect(text), Ok(Some(Redirect { kind, address: announced.clone(), announced })), "{text}");
}

#[track_caller]
fn check_problem(text: &str, problem: RedirectProblem) {
    assert_eq!(detect(text), Err(RedirectError { text: text.into(), problem }), "{text}");
}

#[track_caller]
fn check_other(text: &str) {
    assert_eq!(detect(text), Ok(None), "{text}");
}

fn moved(slot: u16) -> RedirectKind {
    RedirectKind::Moved(Slot::new(slot).unwrap())
}

fn ask(slot: u16) -> RedirectKind {
    RedirectKind::Ask(Slot::new(slot).unwrap())
}

mod moved_error_parsing {
    use super::*;

    #[test]
    fn parses_valid_moved_error() {
        check("MOVED 3999 127.0.0.1:6381", moved(3999), "127.0.0.1", 6381);
    }

    #[test]
    fn parses_moved_error_with_different_slot() {
        check("MOVED 12345 192.168.1.100:7000", moved(12345), "192.168.1.100", 7000);
    }

    #[test]
    fn handles_moved_error_with_hostname_containing_colons() {
        check("MOVED 3999 redis-node-1.example.com:6381", moved(3999), "redis-node-1.example.com", 6381);
        check("MOVED 3999 2001:db8::1:6381", moved(3999), "2001:db8::1", 6381);
        check("MOVED 3999 ::1:6381", moved(3999), "::1", 6381);
        check("MOVED 3999 [2001:db8::1]:6381", moved(3999), "2001:db8::1", 6381);
    }

    #[test]
    fn returns_nothing_for_malformed_moved_error() {
        check_problem("MOVED 3999", RedirectProblem::Incomplete);
        check_problem("MOVED", RedirectProblem::Incomplete);
        check_problem("MOVED 3999 ", RedirectProblem::Incomplete);
    }

    #[test]
    fn returns_nothing_for_moved_with_invalid_slot() {
        check_problem("MOVED notanumber 127.0.0.1:6381", RedirectProblem::Slot);
        check_problem("MOVED 16384 127.0.0.1:6381", RedirectProblem::Slot);
        check_problem("MOVED -1 127.0.0.1:6381", RedirectProblem::Slot);
        check_problem("MOVED +1 127.0.0.1:6381", RedirectProblem::Slot);
        check_problem("MOVED 70000 127.0.0.1:6381", RedirectProblem::Slot);
    }

    #[test]
    fn returns_nothing_for_moved_with_invalid_port() {
        check_problem("MOVED 3999 127.0.0.1:notaport", RedirectProblem::Address);
        check_problem("MOVED 3999 127.0.0.1:65536", RedirectProblem::Address);
        check_problem("MOVED 3999 127.0.0.1:", RedirectProblem::Address);
        check_problem("MOVED 3999 127.0.0.1:+1", RedirectProblem::Address);
    }

    #[test]
    fn returns_nothing_for_moved_with_missing_colon() {
        check_problem("MOVED 3999 127.0.0.16381", RedirectProblem::Address);
    }
}

mod ask_error_parsing {
    use super::*;

    #[test]
    fn parses_valid_ask_error() {
        check("ASK 3999 127.0.0.1:6381", ask(3999), "127.0.0.1", 6381);
    }

    #[test]
    fn parses_ask_error_with_different_slot() {
        check("ASK 8765 10.0.0.1:6379", ask(8765), "10.0.0.1", 6379);
    }

    #[test]
    fn returns_nothing_for_malformed_ask_error() {
        check_problem("ASK 3999", RedirectProblem::Incomplete);
    }

    #[test]
    fn returns_nothing_for_wrong_error_type_prefix() {
        check_other("ASKED 3999 127.0.0.1:6381");
        check_other("XMOVED 3999 127.0.0.1:6381");
        check_other("moved 3999 127.0.0.1:6381");
    }
}

mod edge_cases {
    use super::*;

    #[test]
    fn handles_slot_0() {
        check("MOVED 0 127.0.0.1:6379", moved(0), "127.0.0.1", 6379);
    }

    #[test]
    fn handles_slot_16383_max() {
        check("MOVED 16383 127.0.0.1:6379", moved(16383), "127.0.0.1", 6379);
    }

    #[test]
    fn handles_high_port_numbers() {
        check("MOVED 3999 127.0.0.1:65535", moved(3999), "127.0.0.1", 65535);
    }

    #[test]
    fn handles_hostname_instead_of_ip() {
        check("MOVED 3999 redis-node-1:6379", moved(3999), "redis-node-1", 6379);
    }

    #[test]
    fn returns_nothing_for_extra_whitespace() {
        check_problem("MOVED  3999  127.0.0.1:6381  ", RedirectProblem::Slot);
        check_problem("MOVED 3999  127.0.0.1:6381", RedirectProblem::Trailing);
        check_problem("MOVED 3999 127.0.0.1:6381 ", RedirectProblem::Trailing);
    }

    #[test]
    fn handles_port_0() {
        check("MOVED 3999 127.0.0.1:0", moved(3999), "127.0.0.1", 0);
    }

    #[test]
    fn returns_nothing_for_extra_fields_after_host_port() {
        check_problem("MOVED 3999 127.0.0.1:6381 extra-data", RedirectProblem::Trailing);
    }
}

mod detect_redirection {
    use super::*;

    // The four cases on replies that are no errors hold by type: only a `ServerError` can be asked for a redirect.

    #[test]
    fn returns_nothing_for_non_redirect_errors() {
        check_other("ERR unknown command");
    }

    #[test]
    fn returns_nothing_for_short_error_messages() {
        check_other("ERR");
        check_other("M");
        check_other("A");
    }

    #[test]
    fn returns_nothing_for_empty_error_message() {
        check_other("");
    }

    #[test]
    fn detects_moved_redirect() {
        check("MOVED 3999 127.0.0.1:6381", moved(3999), "127.0.0.1", 6381);
    }

    #[test]
    fn detects_ask_redirect() {
        check("ASK 3999 127.0.0.1:6381", ask(3999), "127.0.0.1", 6381);
    }

    #[test]
    fn returns_nothing_for_errors_starting_with_m_but_not_moved() {
        check_other("MASTERDOWN Link with MASTER is down");
    }

    #[test]
    fn returns_nothing_for_errors_starting_with_a_but_not_ask() {
        check_other("AUTH required");
    }
}

#[test]
fn an_empty_host_is_the_host_that_answered() {
    check("MOVED 3999 :6380", moved(3999), "seed.example.com", 6380);
    check("ASK 3999 :6380", ask(3999), "seed.example.com", 6380);
}

#[test]
fn a_node_without_its_host_name_cannot_be_followed() {
    check_problem("MOVED 3999 ?:6380", RedirectProblem::UnknownHost);
}

#[test]
fn redirect_of_a_standalone_server_has_no_slot() {
    check("REDIRECT 10.0.0.2:6380", RedirectKind::Primary, "10.0.0.2", 6380);
    check("REDIRECT fd00::2:6380", RedirectKind::Primary, "fd00::2", 6380);
    check_problem("REDIRECT", RedirectProblem::Incomplete);
    check_problem("REDIRECT 3999 10.0.0.2:6380", RedirectProblem::Trailing);
}

#[test]
fn the_address_map_changes_where_to_dial_but_not_who_it_is() {
    let seed = NodeAddress::tcp("127.0.0.1", 17000);
    let table = HashMap::from([(NodeAddress::tcp("10.0.0.7", 7001), NodeAddress::tcp("127.0.0.1", 17001))]);
    let map = AddressMap::Table(Arc::new(table));
    let asked = Asked { map: &map, ..Asked::plain(&seed) };
    let redirect = Redirect::detect(&ServerError::parse(b"MOVED 1 10.0.0.7:7001"), &asked).unwrap().unwrap();
    assert_eq!(redirect.announced, NodeAddress::tcp("10.0.0.7", 7001));
    assert_eq!(redirect.address, NodeAddress::tcp("127.0.0.1", 17001));
}

#[test]
fn only_moved_states_an_owner_and_only_ask_needs_asking() {
    let of = |text| detect(text).unwrap().unwrap();
    assert_eq!(of("MOVED 5 h:1").moved(), Slot::new(5));
    assert!(!of("MOVED 5 h:1").asking());
    assert_eq!(of("ASK 5 h:1").moved(), None);
    assert!(of("ASK 5 h:1").asking());
    assert_eq!(of("REDIRECT h:1").moved(), None);
    assert!(!of("REDIRECT h:1").asking());
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "(MOVED|ASK|REDIRECT)?[ 0-9a-z:.?\\[\\]-]{0,40}") {
        let _ = detect(&text);
    }

    #[test]
    fn what_a_server_writes_is_read(slot in 0_u16..16_384, host in "[a-z0-9.-]{1,20}|[0-9a-f:]{2,20}", port in 1_u16..) {
        check(&format!("MOVED {slot} {host}:{port}"), moved(slot), &host, port);
    }
}
