//! The table by its rows, and the limits that hold for all of them.

use super::*;
use crate::config::NodeAddress;
use crate::error::Misuse;
use crate::error::table::TABLE;

const READ: Flags = Flags::READONLY;
const WRITE: Flags = Flags::WRITE;

/// A command that is of no interest but for its flags.
fn of(flags: Flags) -> &'static CommandSpec {
    Box::leak(Box::new(crate::command::table::command("X", b"", 1, 1, "").flags(flags)))
}

fn ran(text: &str) -> Ran {
    judge(of(Flags(0)), &ServerError::parse(text.as_bytes())).ran
}

fn address() -> NodeAddress {
    NodeAddress::tcp("10.0.0.1", 7000)
}

fn attempt(asked: &NodeAddress, flags: Flags) -> Attempt<'_> {
    Attempt {
        spec: of(flags),
        repeat: Repeat::IfReadOnly,
        asked: Asked::plain(asked),
        has_just_looked: false,
        role: Role::Primary,
        readers: Readers::All,
        deployment: Deployment::Cluster,
        redirects: 0,
        retries: 0,
        elapsed: Duration::ZERO,
        timeout: Some(Duration::from_secs(5)),
    }
}

/// What is done about `text` for a reader and for a writer at a primary of a cluster.
fn both(text: &str) -> [Next; 2] {
    [READ, WRITE].map(|flags| of_text(text, &attempt(&address(), flags)))
}

fn of_text(text: &str, attempt: &Attempt<'_>) -> Next {
    let error = ServerError::parse(text.as_bytes());
    next(&RetryPolicy::default(), attempt, FailureKind::Server(&error), &mut Rng::with_seed(1))
}

/// Equal but for the length of the pauses, which are random.
fn shape(next: Next) -> Next {
    let after = Duration::ZERO;
    match next {
        Next::Resubmit { .. } => Next::Resubmit { after },
        Next::Refresh { refresh, .. } => Next::Refresh { after, refresh },
        Next::Reconnect { refresh, .. } => Next::Reconnect { after, refresh },
        Next::Redirect { to, .. } => Next::Redirect { to, after },
        other @ (Next::Fail(_) | Next::Primary { .. }) => other,
    }
}

#[track_caller]
fn check(text: &str, expected: &Next) {
    for next in both(text) {
        assert_eq!(&shape(next), expected, "{text}");
    }
}

fn redirect_to(text: &str) -> Next {
    let asked = address();
    let to = Redirect::detect(&ServerError::parse(text.as_bytes()), &Asked::plain(&asked)).unwrap().unwrap();
    Next::Redirect { to, after: Duration::ZERO }
}

const WAIT: Next = Next::Resubmit { after: Duration::ZERO };
const URGENT: Next = Next::Refresh { after: Duration::ZERO, refresh: Refresh::Urgent };
const HOPELESS: Next = Next::Fail(Stop::Hopeless);

mod rows {
    use super::*;

    #[test]
    fn moved() {
        let text = "MOVED 5 10.0.0.2:7001";
        check(text, &redirect_to(text));
        let [next, _] = both(text);
        assert_eq!((next.after(), next.refresh()), (Some(Duration::ZERO), Refresh::Soon));
    }

    #[test]
    fn moved_to_the_node_that_says_so() {
        check("MOVED 5 10.0.0.1:7000", &Next::Reconnect { after: Duration::ZERO, refresh: Refresh::Soon });
        check("MOVED 5 :7000", &Next::Reconnect { after: Duration::ZERO, refresh: Refresh::Soon });
    }

    #[test]
    fn moved_that_cannot_be_read() {
        check("MOVED 5 ?:7000", &URGENT);
        check("MOVED five 10.0.0.2:7000", &URGENT);
    }

    #[test]
    fn ask() {
        let text = "ASK 5 10.0.0.2:7001";
        check(text, &redirect_to(text));
    }

    #[test]
    fn ask_redirect_does_not_trigger_topology_refresh() {
        for next in both("ASK 5 10.0.0.2:7001") {
            assert_eq!(next.refresh(), Refresh::No);
            assert!(matches!(next, Next::Redirect { to, .. } if to.asking() && to.moved().is_none()));
        }
    }

    #[test]
    fn redirect() {
        let asked = address();
        let standalone = Attempt { deployment: Deployment::Standalone, ..attempt(&asked, WRITE) };
        assert_eq!(of_text("REDIRECT 10.0.0.2:7001", &standalone), redirect_to("REDIRECT 10.0.0.2:7001"));
        let same = Next::Reconnect { after: Duration::ZERO, refresh: Refresh::No };
        assert_eq!(of_text("REDIRECT 10.0.0.1:7000", &standalone), same);
    }

    #[test]
    fn tryagain() {
        check("TRYAGAIN Multiple keys request during rehashing of slot", &WAIT);
    }

    #[test]
    fn loading() {
        check("LOADING Redis is loading the dataset in memory", &WAIT);
    }

    #[test]
    fn busy() {
        let [read, write] = both("BUSY Redis is busy running a script.");
        assert_eq!((shape(read), write), (WAIT, HOPELESS));
    }

    #[test]
    fn clusterdown() {
        check("CLUSTERDOWN The cluster is down", &URGENT);
        check("CLUSTERDOWN Hash slot not served", &URGENT);
    }

    #[test]
    fn masterdown() {
        check("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", &URGENT);
    }

    #[test]
    fn readonly() {
        let stale = Next::Reconnect { after: Duration::ZERO, refresh: Refresh::Urgent };
        check("READONLY You can't write against a read only replica.", &stale);
    }

    #[test]
    fn unblocked() {
        check(
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            &HOPELESS,
        );
        check("UNBLOCKED client unblocked via CLIENT UNBLOCK", &HOPELESS);
    }

    #[test]
    fn noauth_reconnects_once() {
        check("NOAUTH Authentication required.", &Next::Reconnect { after: Duration::ZERO, refresh: Refresh::No });
        let asked = address();
        assert_eq!(of_text("NOAUTH x", &Attempt { retries: 1, ..attempt(&asked, READ) }), HOPELESS);
    }

    #[test]
    fn refusals_that_no_repetition_helps() {
        let codes = [
            "WRONGPASS",
            "NOPERM",
            "NOPROTO",
            "DENIED",
            "OOM",
            "MISCONF",
            "NOREPLICAS",
            "CROSSSLOT",
            "NOSCRIPT",
            "EXECABORT",
            "NOTBUSY",
        ];
        for code in codes {
            check(&format!("{code} text"), &HOPELESS);
            assert_eq!(ran(&format!("{code} text")), Ran::NotSent, "{code}");
        }
    }

    #[test]
    fn any_other_code() {
        for text in ["ERR unknown command", "WRONGTYPE Operation against a key", "BUSYGROUP x", "", "lower case"] {
            check(text, &HOPELESS);
            assert_eq!(ran(text), Ran::Executed, "{text}");
        }
    }

    #[test]
    fn each_row_is_tested_here() {
        let source = include_str!("tests.rs");
        for row in TABLE {
            assert!(
                source.contains(&format!("\"{} ", row.code)) || source.contains(&format!("\"{}\"", row.code)),
                "{}",
                row.code
            );
        }
        let mut codes: Vec<_> = TABLE.iter().map(|row| row.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), TABLE.len());
    }
}

mod connection_failures {
    use super::*;

    #[track_caller]
    fn check(attempt: &Attempt<'_>, ran: Ran, expected: &Next) {
        let next = next(&RetryPolicy::default(), attempt, FailureKind::Connection(ran), &mut Rng::with_seed(1));
        assert_eq!(&shape(next), expected);
    }

    #[test]
    fn not_sent_is_always_sent_again() {
        let asked = address();
        check(&attempt(&asked, READ), Ran::NotSent, &URGENT);
        check(&attempt(&asked, WRITE), Ran::NotSent, &URGENT);
        let standalone = Attempt { deployment: Deployment::Standalone, ..attempt(&asked, WRITE) };
        check(&standalone, Ran::NotSent, &Next::Reconnect { after: Duration::ZERO, refresh: Refresh::No });
    }

    #[test]
    fn what_may_have_run_is_repeated_only_if_it_reads_or_is_marked() {
        let asked = address();
        check(&attempt(&asked, WRITE), Ran::MaybeExecuted, &Next::Fail(Stop::MayHaveRun));
        check(&attempt(&asked, WRITE), Ran::Executed, &Next::Fail(Stop::MayHaveRun));
        check(&attempt(&asked, Flags(0)), Ran::MaybeExecuted, &Next::Fail(Stop::MayHaveRun));
        check(&attempt(&asked, READ), Ran::MaybeExecuted, &URGENT);
        check(&Attempt { repeat: Repeat::Allowed, ..attempt(&asked, WRITE) }, Ran::MaybeExecuted, &URGENT);
    }

    #[test]
    fn a_lost_replica_costs_one_read_one_detour() {
        let asked = address();
        let replica = Attempt { role: Role::Replica, ..attempt(&asked, READ) };
        check(&replica, Ran::MaybeExecuted, &Next::Primary { refresh: Refresh::Urgent });
    }

    #[test]
    fn where_only_replicas_may_answer_no_way_leads_to_the_primary() {
        let asked = address();
        let only = Attempt { role: Role::Replica, readers: Readers::Replicas, ..attempt(&asked, READ) };
        check(&only, Ran::MaybeExecuted, &URGENT);
        for text in ["LOADING x", "MASTERDOWN x", "CLUSTERDOWN x", "MOVED 1 10.0.0.9:7000", "READONLY x"] {
            let next = of_text(text, &only);
            assert!(matches!(next, Next::Refresh { .. } | Next::Reconnect { .. }), "{text}: {next:?}");
        }
        let write = Attempt { spec: of(WRITE), role: Role::Primary, ..only };
        assert!(matches!(of_text("MOVED 1 10.0.0.9:7000", &write), Next::Redirect { .. }));
    }

    #[test]
    fn final_failures_are_final() {
        let asked = address();
        let policy = RetryPolicy::default();
        assert_eq!(next(&policy, &attempt(&asked, READ), FailureKind::Final, &mut Rng::with_seed(1)), HOPELESS);
    }

    #[test]
    fn errors_are_taken_by_their_kind() {
        let of = |kind: ErrorKind, ran| format!("{:?}", FailureKind::of(&Error::new(kind, ran, "GET")));
        assert_eq!(of(ErrorKind::Connection("reset".into()), Ran::MaybeExecuted), "Connection(MaybeExecuted)");
        assert_eq!(of(ErrorKind::Connect("refused".into()), Ran::NotSent), "Connection(NotSent)");
        assert_eq!(of(ErrorKind::Protocol("junk".into()), Ran::MaybeExecuted), "Connection(MaybeExecuted)");
        assert_eq!(of(ErrorKind::Closed, Ran::NotSent), "Final");
        assert_eq!(of(Misuse::CrossSlot { first: 1, second: 2 }.into(), Ran::NotSent), "Final");
        assert!(of(ServerError::parse(b"ERR x").into(), Ran::Executed).starts_with("Server"));
    }
}

mod replicas {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Next) {
        let asked = address();
        assert_eq!(
            &shape(of_text(text, &Attempt { role: Role::Replica, ..attempt(&asked, READ) })),
            expected,
            "{text}"
        );
    }

    #[test]
    fn a_replica_that_cannot_answer_is_passed_by_at_once() {
        check("LOADING x", &Next::Primary { refresh: Refresh::No });
        check("BUSY x", &Next::Primary { refresh: Refresh::No });
        check("MASTERDOWN x", &Next::Primary { refresh: Refresh::Urgent });
        check("CLUSTERDOWN x", &Next::Primary { refresh: Refresh::Urgent });
    }

    #[test]
    fn a_replica_that_redirects_is_followed() {
        check("MOVED 5 10.0.0.2:7001", &redirect_to("MOVED 5 10.0.0.2:7001"));
    }
}

mod scripts {
    use super::*;

    const OF_SCRIPT: &str = "READONLY You can't write against a read only replica. script: 0a1b, on @user_script:1.";

    #[test]
    fn an_error_in_a_script_says_nothing_about_what_ran_before() {
        assert_eq!(ran(OF_SCRIPT), Ran::MaybeExecuted);
        let asked = address();
        assert_eq!(of_text(OF_SCRIPT, &attempt(&asked, WRITE)), Next::Fail(Stop::MayHaveRun));
        let marked = Attempt { repeat: Repeat::Allowed, ..attempt(&asked, WRITE) };
        assert!(matches!(of_text(OF_SCRIPT, &marked), Next::Reconnect { .. }));
    }
}

mod standalone {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Next) {
        let asked = address();
        let attempt = Attempt { deployment: Deployment::Standalone, ..attempt(&asked, WRITE) };
        assert_eq!(&shape(of_text(text, &attempt)), expected, "{text}");
    }

    #[test]
    fn there_is_no_map_to_refresh() {
        check("READONLY x", &Next::Reconnect { after: Duration::ZERO, refresh: Refresh::No });
        let asked = address();
        let deployment = Deployment::Standalone;
        let again = Attempt { deployment, has_just_looked: true, ..attempt(&asked, WRITE) };
        assert_eq!(of_text("READONLY x", &again), Next::Fail(Stop::Hopeless), "nobody else is there");
        check("CLUSTERDOWN x", &WAIT);
        check("MASTERDOWN x", &WAIT);
        check("LOADING x", &WAIT);
    }

    #[test]
    fn a_redirect_of_a_cluster_is_a_wrong_configuration() {
        check("MOVED 5 10.0.0.2:7001", &Next::Fail(Stop::NotACluster));
        check("ASK 5 10.0.0.2:7001", &Next::Fail(Stop::NotACluster));
    }

    #[test]
    fn a_redirect_that_cannot_be_read_waits() {
        check("REDIRECT nowhere", &Next::Refresh { after: Duration::ZERO, refresh: Refresh::No });
    }
}

mod limits {
    use super::*;

    #[test]
    fn redirects_end() {
        let asked = address();
        let with = |redirects| of_text("MOVED 5 10.0.0.2:7001", &Attempt { redirects, ..attempt(&asked, READ) });
        assert!(matches!(with(63), Next::Redirect { .. }));
        assert_eq!(with(64), Next::Fail(Stop::TooManyRedirects));
    }

    #[test]
    fn the_first_two_redirects_are_followed_at_once_and_more_are_slowed_down() {
        let asked = address();
        let after = |redirects| {
            of_text("MOVED 5 10.0.0.2:7001", &Attempt { redirects, ..attempt(&asked, READ) }).after().unwrap()
        };
        assert_eq!([after(0), after(1)], [Duration::ZERO; 2]);
        assert!(after(2) >= Duration::from_millis(5));
        assert!(after(9) >= Duration::from_millis(100));
    }

    #[test]
    fn a_server_that_redirects_to_itself_is_not_stormed() {
        let asked = address();
        let after = |retries| {
            let next = of_text("MOVED 5 10.0.0.1:7000", &Attempt { retries, ..attempt(&asked, READ) });
            assert!(matches!(next, Next::Reconnect { .. }), "{next:?}");
            next.after().unwrap()
        };
        assert_eq!(after(0), Duration::ZERO);
        assert!(after(1) >= Duration::from_millis(5) && after(9) >= Duration::from_millis(100));
    }

    #[test]
    fn nodes_that_do_not_agree_make_the_map_urgent() {
        let asked = address();
        for text in ["MOVED 5 10.0.0.2:7001", "ASK 5 10.0.0.2:7001"] {
            assert_eq!(of_text(text, &Attempt { redirects: 2, ..attempt(&asked, READ) }).refresh(), Refresh::Urgent);
        }
    }

    #[test]
    fn retries_end_even_without_a_deadline() {
        let asked = address();
        let with = |retries, text| of_text(text, &Attempt { retries, timeout: None, ..attempt(&asked, READ) });
        for text in ["TRYAGAIN x", "LOADING x", "CLUSTERDOWN x", "READONLY x", "MOVED 5 ?:1", "MOVED 5 10.0.0.1:7000"] {
            assert!(!matches!(with(63, text), Next::Fail(_)), "{text}");
            assert_eq!(with(64, text), Next::Fail(Stop::TooManyRetries), "{text}");
            // With one, nothing else ends them: a failover may take as long as the caller allows.
            let patient = Attempt { retries: 1000, timeout: Some(Duration::from_secs(60)), ..attempt(&asked, READ) };
            assert!(!matches!(of_text(text, &patient), Next::Fail(_)), "{text}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_cap() {
        let policy = RetryPolicy::default();
        let mut rng = Rng::with_seed(7);
        for (attempts, longest) in
            [(0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (5, 200), (31, 200), (32, 200), (u32::MAX, 200)]
        {
            let longest = Duration::from_millis(longest);
            for _ in 0..100 {
                let pause = policy.pause(attempts, &mut rng);
                assert!(pause >= longest / 2 && pause <= longest, "{attempts}: {pause:?}");
            }
        }
    }

    #[test]
    fn pauses_of_many_clients_are_spread() {
        let policy = RetryPolicy::default();
        let mut pauses: Vec<_> =
            (0..1000).map(|seed| policy.pause(5, &mut Rng::with_seed(seed)).as_millis() / 10).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert!(pauses.len() >= 10, "{pauses:?}");
    }
}

proptest::proptest! {
    /// Whatever the failure: no pause goes beyond the deadline, and nothing that may have run is repeated unasked.
    #[test]
    fn no_step_is_late_or_unsafe(row in 0..TABLE.len(), elapsed in 0_u64..6000, retries in 0_u32..70, seed: u64, sent: bool) {
        let asked = address();
        let attempt = Attempt { retries, elapsed: Duration::from_millis(elapsed), ..attempt(&asked, WRITE) };
        let error = ServerError::parse(format!("{} 5 10.0.0.2:7001", TABLE[row].code).as_bytes());
        let lost = FailureKind::Connection(if sent { Ran::MaybeExecuted } else { Ran::NotSent });
        for failure in [FailureKind::Server(&error), lost] {
            let next = next(&RetryPolicy::default(), &attempt, failure, &mut Rng::with_seed(seed));
            if let Some(after) = next.after() {
                proptest::prop_assert!(attempt.elapsed + after < Duration::from_secs(5));
                proptest::prop_assert!(!matches!(failure, FailureKind::Connection(Ran::MaybeExecuted)));
            }
        }
    }
}
