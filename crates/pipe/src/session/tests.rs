//! Tables of frames against what they mean, and random frames against both sides.

use super::*;
use crate::frame::flags::{END, IGNORABLE, UPGRADE};
use proptest::prelude::*;
use std::collections::VecDeque;

fn header(kind: u8, flags: u8, exchange: u16) -> FrameHeader {
    FrameHeader { length: 0, kind, flags, exchange }
}

fn rule<T: fmt::Debug>(result: Result<T, Violation>) -> &'static str {
    result.expect_err("a violation").rule
}

mod shared_gateway {
    use super::*;

    #[test]
    fn ids_are_reused_only_after_the_final_frame() {
        let mut all = GatewayExchanges::default();
        let shared = all.add_shared(2);
        let (a, b) = (all.begin_shared(shared).unwrap(), all.begin_shared(shared).unwrap());
        assert_eq!((a, b, all.begin_shared(shared), all.room(shared)), (1, 2, None, 0)); // P-14
        assert!(all.cancel(a) && !all.cancel(a) && !all.cancel(0) && !all.cancel(9));
        assert_eq!(all.begin_shared(shared), None); // P-15
        assert_eq!(all.receive(shared, &header(FrameType::RESPONSE, END, a)), Ok(SharedEvent::Thrown(a)));
        let c = all.begin_shared(shared).unwrap();
        assert_eq!(all.receive(shared, &header(FrameType::RESPONSE, END, b)), Ok(SharedEvent::Answer(b)));
        assert!(!all.cancel(b));
        assert_eq!(all.receive(shared, &header(FrameType::RESET, 0, c)), Ok(SharedEvent::Reset(c)));
        assert_eq!(all.receive(shared, &header(FrameType::RESET, 0, a)), Ok(SharedEvent::Ignored)); // P-26
        assert_eq!(all.room(shared), 2);
    }

    #[test]
    fn violations() {
        let mut all = GatewayExchanges::default();
        let (one, two) = (all.add_shared(4), all.add_shared(4));
        let id = all.begin_shared(one).unwrap();
        for kind in [FrameType::INFO, FrameType::DATA, FrameType::TRAILERS] {
            assert_eq!(rule(all.receive(one, &header(kind, 0, id))), "P-17");
        }
        assert_eq!(rule(all.receive(one, &header(FrameType::RESPONSE, 0, id))), "P-17");
        assert_eq!(rule(all.receive(two, &header(FrameType::RESPONSE, END, id))), "P-16");
        assert_eq!(rule(all.receive(one, &header(FrameType::RESPONSE, END, 9))), "P-16");
        assert_eq!(rule(all.receive(one, &header(FrameType::RESPONSE, END, 0))), "P-15");
        assert_eq!(rule(all.receive(one, &header(FrameType::STOP, 0, id))), "P-11");
        for kind in [FrameType::HELLO, FrameType::WELCOME, FrameType::MORE] {
            assert_eq!(rule(all.receive(one, &header(kind, 0, 0))), "P-11");
        }
        assert_eq!(rule(all.receive(one, &header(99, END, 0))), "P-7");
        assert_eq!(all.receive(one, &header(99, IGNORABLE, 5)), Ok(SharedEvent::Skipped));
        assert_eq!(all.receive(one, &header(FrameType::RESPONSE, END, id)), Ok(SharedEvent::Answer(id)));
    }

    #[test]
    fn the_end_of_a_connection_loses_its_own_exchanges_only() {
        let mut all = GatewayExchanges::default();
        let (one, two) = (all.add_shared(4), all.add_shared(4));
        let ids: Vec<_> = (0..3).map(|_| all.begin_shared(one).unwrap()).collect();
        let other = all.begin_shared(two).unwrap();
        assert!(all.cancel(ids[1]));
        let mut answer = AnswerGateway::default();
        answer.receive(&header(FrameType::RESPONSE, 0, ids[2]), &mut all).unwrap();
        let mut lost = Vec::new();
        all.remove_shared(one, &mut lost);
        assert_eq!(lost, [ids[0]]);
        assert_eq!(all.room(one), 0);
        let next = all.add_shared(1);
        assert_eq!((next, all.room(next)), (one, 1));
        // The connection that carried its REQUEST is gone, and with it the way for a RESET.
        assert!(!all.cancel(ids[2]));
        let last = answer.receive(&header(FrameType::DATA, END, ids[2]), &mut all);
        assert_eq!(last, Ok(AnswerEvent::Thrown(ids[2], AnswerPart::Data(Part::Last))));
        assert_eq!((all.room(next), all.room(two)), (1, 3));
        assert_eq!(all.receive(two, &header(FrameType::RESPONSE, END, other)), Ok(SharedEvent::Answer(other)));
    }

    #[test]
    fn an_id_rests_and_the_longest_free_comes_back_first() {
        let mut all = GatewayExchanges::default();
        let shared = all.add_shared(1);
        let turn = |all: &mut GatewayExchanges| {
            let id = all.begin_shared(shared).unwrap();
            all.receive(shared, &header(FrameType::RESPONSE, END, id)).unwrap();
            id
        };
        let first: Vec<u16> = (0..256).map(|_| turn(&mut all)).collect();
        assert_eq!(first, (1..=256).collect::<Vec<u16>>());
        let again: Vec<u16> = (0..256).map(|_| turn(&mut all)).collect();
        assert_eq!(again, first);
        // A second final frame is nobody's.
        assert_eq!(rule(all.receive(shared, &header(FrameType::RESPONSE, END, 256))), "P-16");
    }

    #[test]
    fn all_65535_ids_then_none() {
        let mut all = GatewayExchanges::default();
        let ids: std::collections::HashSet<u16> = std::iter::from_fn(|| all.begin_own()).collect();
        assert!(ids.len() == 65_535 && !ids.contains(&0));
        all.end_own(77);
        assert_eq!((all.begin_own(), all.begin_own()), (Some(77), None));
    }
}

mod answer {
    use super::*;

    #[test]
    fn answers_one_after_the_other() {
        let mut all = GatewayExchanges::default();
        let shared = all.add_shared(4);
        let (a, b) = (all.begin_shared(shared).unwrap(), all.begin_shared(shared).unwrap());
        let mut answer = AnswerGateway::default();
        let mut send = |all: &mut GatewayExchanges, kind, flags, id| answer.receive(&header(kind, flags, id), all);
        assert_eq!(send(&mut all, FrameType::INFO, 0, a), Ok(AnswerEvent::Part(a, AnswerPart::Info)));
        assert_eq!(rule(send(&mut all, FrameType::RESPONSE, 0, b)), "P-25");
        assert_eq!(
            send(&mut all, FrameType::RESPONSE, 0, a),
            Ok(AnswerEvent::Part(a, AnswerPart::Response(Part::More)))
        );
        assert_eq!(rule(all.receive(shared, &header(FrameType::RESPONSE, END, a))), "P-24");
        assert_eq!(send(&mut all, FrameType::TRAILERS, END, a), Ok(AnswerEvent::Part(a, AnswerPart::Trailers)));
        assert_eq!(rule(send(&mut all, FrameType::RESPONSE, 0, a)), "P-24");
        assert_eq!(
            send(&mut all, FrameType::RESPONSE, 0, b),
            Ok(AnswerEvent::Part(b, AnswerPart::Response(Part::More)))
        );
        assert!(all.cancel(b) && !all.cancel(b)); // on the shared connection: P-26
        assert_eq!(send(&mut all, FrameType::DATA, 0, b), Ok(AnswerEvent::Thrown(b, AnswerPart::Data(Part::More))));
        assert_eq!(send(&mut all, FrameType::RESET, 0, b), Ok(AnswerEvent::Thrown(b, AnswerPart::Reset)));
        assert_eq!(send(&mut all, FrameType::RESET, 0, b), Ok(AnswerEvent::Ignored));
        assert_eq!(rule(send(&mut all, FrameType::PING, 0, 0)), "P-25");
        assert_eq!(all.room(shared), 4);
    }

    #[test]
    fn a_cut_answer_is_named_once() {
        let mut all = GatewayExchanges::default();
        let shared = all.add_shared(1);
        let id = all.begin_shared(shared).unwrap();
        let mut answer = AnswerGateway::default();
        answer.receive(&header(FrameType::RESPONSE, 0, id), &mut all).unwrap();
        assert_eq!((answer.close(&mut all), answer.close(&mut all), all.room(shared)), (Some(id), None, 1));
    }

    #[test]
    fn the_services_side() {
        let mut answer = AnswerService::default();
        assert_eq!(rule(answer.receive(&header(FrameType::RESET, 0, 3))), "P-3");
        assert_eq!(answer.receive(&header(FrameType::WELCOME, 0, 0)), Ok(AnswerServiceEvent::Welcome));
        assert_eq!(rule(answer.receive(&header(FrameType::WELCOME, 0, 0))), "P-3");
        assert_eq!(rule(answer.receive(&header(FrameType::RESET, 0, 3))), "P-25");
        assert_eq!(answer.receive(&header(FrameType::RESET, 0, 0)), Ok(AnswerServiceEvent::ConnectionReset));
        assert_eq!(answer.receive(&header(99, IGNORABLE, 0)), Ok(AnswerServiceEvent::Skipped));
        assert_eq!(rule(answer.receive(&header(FrameType::PING, 0, 0))), "P-25");
        assert_eq!(rule(answer.receive(&header(FrameType::REQUEST, END, 1))), "P-25");
    }
}

mod own {
    use super::*;

    #[test]
    fn the_gateway_ends_the_request_after_stop_and_after_the_final_frame() {
        let mut own = OwnGateway::default();
        assert!(own.begin(5, Part::More) && !own.begin(6, Part::Last)); // P-19
        assert!(own.is_sending() && !own.must_end_request());
        assert_eq!(own.receive(&header(FrameType::STOP, 0, 5)), Ok(OwnEvent::Stop));
        assert!(own.must_end_request() && !own.has_received());
        own.request_ended();
        assert_eq!(own.receive(&header(FrameType::STOP, 0, 5)), Ok(OwnEvent::Ignored));
        assert_eq!(rule(own.receive(&header(FrameType::DATA, END, 5))), "P-20");
        assert_eq!(
            own.receive(&header(FrameType::RESPONSE, END, 5)),
            Ok(OwnEvent::Part(AnswerPart::Response(Part::Last)))
        );
        assert!(own.is_idle() && own.begin(6, Part::More));
        assert_eq!(
            own.receive(&header(FrameType::RESPONSE, END, 6)),
            Ok(OwnEvent::Part(AnswerPart::Response(Part::Last)))
        );
        assert!(own.must_end_request() && !own.is_idle());
        own.request_ended();
        assert!(own.is_idle());
        assert_eq!(own.receive(&header(FrameType::RESET, 0, 6)), Ok(OwnEvent::Ignored));
        assert_eq!(rule(own.receive(&header(FrameType::RESPONSE, END, 6))), "P-19");
    }

    #[test]
    fn frames_after_a_cancel_are_thrown_away() {
        let mut own = OwnGateway::default();
        assert!(own.begin(1, Part::Last));
        assert!(own.cancel() && !own.cancel());
        assert_eq!(
            own.receive(&header(FrameType::RESPONSE, 0, 1)),
            Ok(OwnEvent::Thrown(AnswerPart::Response(Part::More)))
        );
        assert_eq!(own.receive(&header(FrameType::RESET, 0, 1)), Ok(OwnEvent::Thrown(AnswerPart::Reset)));
        assert!(own.is_idle() && !own.cancel());
    }

    #[test]
    fn a_switch_is_offered_before_it_is_accepted() {
        let offered = || {
            let mut own = OwnGateway::default();
            assert!(own.begin_offer(5) && own.is_offering() && !own.is_sending());
            own
        };
        let mut own = offered();
        assert_eq!(rule(own.receive(&header(FrameType::PING, 0, 0))), "P-39");
        assert_eq!(own.receive(&header(FrameType::INFO, 0, 5)), Ok(OwnEvent::Part(AnswerPart::Info)));
        assert!(own.is_offering());
        assert_eq!(rule(offered().receive(&header(FrameType::RESPONSE, END | UPGRADE, 5))), "P-40");
        let switched = own.receive(&header(FrameType::RESPONSE, UPGRADE, 5));
        assert_eq!(switched, Ok(OwnEvent::Part(AnswerPart::Switched)));
        assert!(AnswerPart::Switched.is_final() && !own.is_offering() && own.is_idle());

        let mut own = offered(); // declined: an ordinary answer
        assert_eq!(
            own.receive(&header(FrameType::RESPONSE, 0, 5)),
            Ok(OwnEvent::Part(AnswerPart::Response(Part::More)))
        );
        assert!(!own.is_offering() && own.cancel());
        assert_eq!(own.receive(&header(FrameType::PING, 0, 0)), Ok(OwnEvent::Ping));

        let mut own = OwnGateway::default(); // where nothing was offered the flag means nothing
        assert!(own.begin(5, Part::Last));
        let response = own.receive(&header(FrameType::RESPONSE, UPGRADE, 5));
        assert_eq!(response, Ok(OwnEvent::Part(AnswerPart::Response(Part::More))));
    }

    #[test]
    fn nothing_comes_between_an_offer_and_its_answer() {
        let offered = || {
            let mut own = OwnService::default();
            assert_eq!(own.receive(&header(FrameType::WELCOME, 0, 0)), Ok(OwnServiceEvent::Welcome));
            own.agreed(1);
            assert_eq!(rule(own.receive(&header(FrameType::REQUEST, UPGRADE, 4))), "P-38");
            assert_eq!(own.receive(&header(FrameType::REQUEST, END | UPGRADE, 4)), Ok(OwnServiceEvent::Offer(4)));
            own
        };
        assert!(offered().is_offered());
        for kind in [FrameType::RESET, FrameType::PING, FrameType::DATA] {
            let exchange = if kind == FrameType::PING { 0 } else { 4 };
            assert_eq!(rule(offered().receive(&header(kind, 0, exchange))), "P-39");
        }
        let mut own = offered();
        own.answer_begun();
        assert_eq!(own.receive(&header(FrameType::RESET, 0, 4)), Ok(OwnServiceEvent::Cancel));
        let mut own = offered();
        own.finish();
        assert!(own.is_idle() && !own.is_offered());
        let mut old = OwnService::default(); // P-37: nothing was agreed to
        assert_eq!(old.receive(&header(FrameType::WELCOME, 0, 0)), Ok(OwnServiceEvent::Welcome));
        let request = old.receive(&header(FrameType::REQUEST, END | UPGRADE, 4));
        assert_eq!(request, Ok(OwnServiceEvent::Request(4, Part::Last)));
    }

    #[test]
    fn the_services_side() {
        let mut own = OwnService::default();
        assert_eq!(rule(own.receive(&header(FrameType::REQUEST, END, 1))), "P-3");
        assert_eq!(own.receive(&header(FrameType::WELCOME, 0, 0)), Ok(OwnServiceEvent::Welcome));
        assert_eq!(rule(own.receive(&header(FrameType::DATA, 0, 1))), "P-19");
        assert_eq!(own.receive(&header(FrameType::REQUEST, 0, 1)), Ok(OwnServiceEvent::Request(1, Part::More)));
        assert_eq!(rule(own.receive(&header(FrameType::REQUEST, END, 2))), "P-19");
        assert_eq!(own.receive(&header(FrameType::DATA, 0, 1)), Ok(OwnServiceEvent::Data(Part::More)));
        assert!(own.stop() && !own.stop());
        assert_eq!(own.receive(&header(FrameType::DATA, 0, 1)), Ok(OwnServiceEvent::Thrown));
        assert_eq!(own.receive(&header(FrameType::RESET, 0, 1)), Ok(OwnServiceEvent::Cancel));
        assert!(!own.is_idle());
        own.finish();
        assert!(own.is_idle(), "RESET has ended the request direction (P-26)");
        // The same when the answer has ended before the RESET comes, and the request has not.
        assert_eq!(own.receive(&header(FrameType::REQUEST, 0, 3)), Ok(OwnServiceEvent::Request(3, Part::More)));
        own.finish();
        assert!(!own.is_idle() && !own.owes_answer());
        assert_eq!(own.receive(&header(FrameType::RESET, 0, 3)), Ok(OwnServiceEvent::Ignored));
        assert!(own.is_idle());
        assert_eq!(own.receive(&header(FrameType::REQUEST, END, 2)), Ok(OwnServiceEvent::Request(2, Part::Last)));
        assert_eq!(rule(own.receive(&header(FrameType::DATA, END, 2))), "P-20");
        assert_eq!(rule(own.receive(&header(FrameType::MORE, 0, 0))), "P-23");
    }
}

#[test]
fn the_services_side_of_a_shared_connection() {
    let mut shared = SharedService::new(2);
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 1))), "P-3");
    assert_eq!(shared.receive(&header(FrameType::WELCOME, 0, 0)), Ok(SharedServiceEvent::Welcome));
    assert_eq!(rule(shared.receive(&header(FrameType::WELCOME, 0, 0))), "P-3");
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, 0, 1))), "P-14");
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 0))), "P-15");
    assert_eq!(shared.receive(&header(FrameType::REQUEST, END, 1)), Ok(SharedServiceEvent::Request(1)));
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 1))), "P-15");
    assert_eq!(shared.receive(&header(FrameType::REQUEST, END, 2)), Ok(SharedServiceEvent::Request(2)));
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 3))), "P-14");
    assert_eq!(shared.receive(&header(FrameType::RESET, 0, 1)), Ok(SharedServiceEvent::Cancel(1)));
    assert_eq!(shared.receive(&header(FrameType::RESET, 0, 1)), Ok(SharedServiceEvent::Ignored));
    assert!(shared.finish(1) && !shared.finish(1));
    assert_eq!(rule(shared.receive(&header(FrameType::LOG, 0, 2))), "P-11");
    assert_eq!(rule(shared.receive(&header(FrameType::PING, 0, 2))), "P-11");
    assert_eq!(shared.open(), 1);
}

#[test]
fn a_violation_reads_well() {
    let error = OwnService::default().receive(&header(FrameType::HELLO, 0, 0)).unwrap_err();
    assert_eq!(error.to_string(), "P-11: HELLO comes once, from the service (HELLO, exchange 0)");
    let error = OwnService::default().receive(&header(77, 0, 3)).unwrap_err();
    assert_eq!(error.to_string(), "P-7: an unknown type without IGNORABLE (type 77, exchange 3)");
    assert_eq!(ProtocolError::from(error).to_reset().code, ResetCode::Protocol);
}

fn named<T>(result: Result<T, Violation>) -> Option<T> {
    result.map_err(|error| assert!(error.to_string().starts_with("P-"), "{error}")).ok()
}

fn any_header() -> impl Strategy<Value = FrameHeader> {
    let flags = prop_oneof![Just(0u8), Just(END), Just(IGNORABLE), any::<u8>()];
    (0u8..18, flags, 0u16..6).prop_map(|(kind, flags, exchange)| header(kind, flags, exchange))
}

/// What happens next; the number chooses the exchange.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open,
    Cancel(usize),
    /// The service answers here with RESPONSE, or RESET.
    Answer(usize, u8),
    /// It begins an answer on the answer connection.
    Begin(usize),
    /// The answer there ends.
    End,
    ToService,
    SharedToGateway,
    AnswerToGateway,
}

fn any_step() -> impl Strategy<Value = Step> {
    let pick = || any::<usize>();
    prop_oneof![
        3 => Just(Step::Open),
        2 => pick().prop_map(Step::Cancel),
        1 => (pick(), prop_oneof![Just(FrameType::RESPONSE), Just(FrameType::RESET)]).prop_map(|(pick, kind)| Step::Answer(pick, kind)),
        3 => pick().prop_map(Step::Begin),
        3 => Just(Step::End),
        4 => Just(Step::ToService),
        2 => Just(Step::SharedToGateway),
        4 => Just(Step::AnswerToGateway),
    ]
}

/// Two fair sides with frames in flight: in order on each connection, in any order between the two. Each exchange has a
/// serial number that does not cross, so that a mix-up of two exchanges with one id is seen.
struct Fair {
    gateway: GatewayExchanges,
    shared: SharedId,
    answer: AnswerGateway,
    service: SharedService,
    opened: u32,
    /// What the gateway has open: id, serial.
    waiting: Vec<(u16, u32)>,
    /// What the service has open and not moved.
    working: Vec<(u16, u32)>,
    /// The answer in progress on the answer connection.
    moved: Option<(u16, u32)>,
    to_service: VecDeque<(FrameHeader, u32)>,
    from_shared: VecDeque<(FrameHeader, u32)>,
    from_answer: VecDeque<(FrameHeader, u32)>,
}

impl Fair {
    fn new() -> Self {
        let mut gateway = GatewayExchanges::default();
        gateway.min_resting(0); // the hardest case: an id comes back at once
        let shared = gateway.add_shared(4);
        let mut service = SharedService::new(4);
        service.receive(&header(FrameType::WELCOME, 0, 0)).unwrap();
        Self {
            gateway,
            shared,
            answer: AnswerGateway::default(),
            service,
            opened: 0,
            waiting: Vec::new(),
            working: Vec::new(),
            moved: None,
            to_service: VecDeque::new(),
            from_shared: VecDeque::new(),
            from_answer: VecDeque::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Open => {
                if let Some(id) = self.gateway.begin_shared(self.shared) {
                    self.opened += 1;
                    self.waiting.push((id, self.opened));
                    self.to_service.push_back((header(FrameType::REQUEST, END, id), self.opened));
                }
            }
            Step::Cancel(_) if self.waiting.is_empty() => {}
            Step::Cancel(pick) => {
                let (id, serial) = self.waiting[pick % self.waiting.len()];
                if self.gateway.cancel(id) {
                    self.to_service.push_back((header(FrameType::RESET, 0, id), serial));
                }
            }
            Step::Answer(pick, kind) if !self.working.is_empty() => {
                let (id, serial) = self.working.swap_remove(pick % self.working.len());
                assert!(self.service.finish(id));
                let flags = if kind == FrameType::RESPONSE { END } else { 0 };
                self.from_shared.push_back((header(kind, flags, id), serial));
            }
            Step::Begin(pick) if self.moved.is_none() && !self.working.is_empty() => {
                let (id, serial) = self.working.swap_remove(pick % self.working.len());
                self.moved = Some((id, serial));
                self.from_answer.push_back((header(FrameType::RESPONSE, 0, id), serial));
            }
            Step::Answer(..) | Step::Begin(_) => {}
            Step::End => {
                if let Some((id, serial)) = self.moved.take() {
                    assert!(self.service.finish(id));
                    self.from_answer.push_back((header(FrameType::DATA, END, id), serial));
                }
            }
            Step::ToService => self.deliver(),
            Step::SharedToGateway => {
                if let Some((frame, serial)) = self.from_shared.pop_front() {
                    self.gateway.receive(self.shared, &frame).unwrap();
                    self.ended(frame.exchange, serial);
                }
            }
            Step::AnswerToGateway => {
                if let Some((frame, serial)) = self.from_answer.pop_front() {
                    self.answer.receive(&frame, &mut self.gateway).unwrap();
                    if frame.is_end() {
                        self.ended(frame.exchange, serial);
                    }
                }
            }
        }
    }

    fn deliver(&mut self) {
        let Some((frame, serial)) = self.to_service.pop_front() else {
            return;
        };
        match self.service.receive(&frame).unwrap() {
            SharedServiceEvent::Request(id) => self.working.push((id, serial)),
            // P-26: the one that was meant, or none.
            SharedServiceEvent::Cancel(id) => {
                assert!(self.working.contains(&(id, serial)) || self.moved == Some((id, serial)));
            }
            SharedServiceEvent::Ignored => {
                assert!(self.working.iter().chain(&self.moved).all(|open| open.1 != serial));
            }
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, exchange: u16, serial: u32) {
        let index = self.waiting.iter().position(|open| *open == (exchange, serial));
        self.waiting.swap_remove(index.expect("the gateway waits for this very answer"));
    }

    fn finish(&mut self) {
        while !self.waiting.is_empty() {
            for step in [
                Step::ToService,
                Step::Answer(0, FrameType::RESPONSE),
                Step::End,
                Step::SharedToGateway,
                Step::AnswerToGateway,
            ] {
                self.step(step);
            }
        }
    }
}

proptest! {
    #[test]
    fn random_frames_never_panic_and_violations_name_a_rule(headers in prop::collection::vec((any_header(), any::<u8>()), 0..200)) {
        let mut all = GatewayExchanges::default();
        let shared = all.add_shared(4);
        let (mut answer, mut own_gateway) = (AnswerGateway::default(), OwnGateway::default());
        let (mut shared_service, mut own_service, mut answer_service) =
            (SharedService::new(3), OwnService::default(), AnswerService::default());
        for (header, choice) in headers {
            match choice % 16 {
                0 => { all.begin_shared(shared); }
                1 => { let _ = all.cancel(header.exchange); }
                2 => { let _ = own_gateway.begin(header.exchange, Part::More); }
                3 => { own_gateway.request_ended(); }
                4 => { own_service.finish(); }
                5 => { let _ = own_service.stop(); }
                6 => { shared_service.finish(header.exchange); }
                7 => { answer.close(&mut all); }
                _ => {}
            }
            named(all.receive(shared, &header));
            named(answer.receive(&header, &mut all));
            named(own_gateway.receive(&header));
            named(shared_service.receive(&header));
            named(own_service.receive(&header));
            named(answer_service.receive(&header));
            prop_assert!(all.room(shared) <= 4);
            prop_assert!(shared_service.open() <= 3);
        }
    }

    #[test]
    fn fair_sides_agree(steps in prop::collection::vec(any_step(), 0..400)) {
        let mut sides = Fair::new();
        for step in steps {
            sides.step(step);
        }
        sides.finish();
        prop_assert_eq!((sides.gateway.room(sides.shared), sides.service.open()), (4, 0));
    }
}
