//! Tables of frames against what they mean, and random frames against both sides.

use super::*;
use crate::frame::flags::{END, IGNORABLE};
use proptest::prelude::*;

fn header(kind: u8, flags: u8, exchange: u16) -> FrameHeader {
    FrameHeader {
        length: 0,
        kind,
        flags,
        exchange,
    }
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
        assert_eq!(all.cancel(a), CancelOn::Shared(shared));
        assert_eq!(all.cancel(a), CancelOn::Nothing);
        assert_eq!(all.begin_shared(shared), None); // P-15
        assert_eq!(
            all.receive(shared, &header(FrameType::RESPONSE, END, a)),
            Ok(SharedEvent::Thrown(a))
        );
        assert_eq!(all.begin_shared(shared), Some(a));
        assert_eq!(
            all.receive(shared, &header(FrameType::RESPONSE, END, b)),
            Ok(SharedEvent::Answer(b))
        );
        assert_eq!(
            all.receive(shared, &header(FrameType::RESET, 0, a)),
            Ok(SharedEvent::Reset(a))
        );
        assert_eq!(
            all.receive(shared, &header(FrameType::RESET, 0, a)),
            Ok(SharedEvent::Ignored)
        ); // P-26
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
        assert_eq!(
            all.receive(one, &header(FrameType::RESPONSE, END, id)),
            Ok(SharedEvent::Answer(id))
        );
    }

    #[test]
    fn the_end_of_a_connection_loses_its_own_exchanges_only() {
        let mut all = GatewayExchanges::default();
        let (one, two) = (all.add_shared(4), all.add_shared(4));
        let ids: Vec<_> = (0..3).map(|_| all.begin_shared(one).unwrap()).collect();
        let other = all.begin_shared(two).unwrap();
        assert_eq!(all.cancel(ids[1]), CancelOn::Shared(one));
        let mut answer = AnswerGateway::default();
        answer
            .receive(&header(FrameType::RESPONSE, 0, ids[2]), &mut all)
            .unwrap();
        let mut lost = Vec::new();
        all.remove_shared(one, &mut lost);
        assert_eq!(lost, [ids[0]]);
        assert_eq!(all.room(one), 0);
        let next = all.add_shared(1);
        assert_eq!((next, all.room(next)), (one, 1));
        let last = answer.receive(&header(FrameType::DATA, END, ids[2]), &mut all);
        assert_eq!(last, Ok(AnswerEvent::Part(ids[2], AnswerPart::Data(Part::Last))));
        assert_eq!((all.room(next), all.room(two)), (1, 3));
        assert_eq!(
            all.receive(two, &header(FrameType::RESPONSE, END, other)),
            Ok(SharedEvent::Answer(other))
        );
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
        assert_eq!(
            send(&mut all, FrameType::INFO, 0, a),
            Ok(AnswerEvent::Part(a, AnswerPart::Info))
        );
        assert_eq!(rule(send(&mut all, FrameType::RESPONSE, 0, b)), "P-25");
        assert_eq!(
            send(&mut all, FrameType::RESPONSE, 0, a),
            Ok(AnswerEvent::Part(a, AnswerPart::Response(Part::More)))
        );
        assert_eq!(rule(all.receive(shared, &header(FrameType::RESPONSE, END, a))), "P-24");
        assert_eq!(
            send(&mut all, FrameType::TRAILERS, END, a),
            Ok(AnswerEvent::Part(a, AnswerPart::Trailers))
        );
        assert_eq!(rule(send(&mut all, FrameType::RESPONSE, 0, a)), "P-24");
        assert_eq!(
            send(&mut all, FrameType::RESPONSE, 0, b),
            Ok(AnswerEvent::Part(b, AnswerPart::Response(Part::More)))
        );
        assert_eq!(all.cancel(b), CancelOn::Answer);
        assert_eq!(
            send(&mut all, FrameType::DATA, 0, b),
            Ok(AnswerEvent::Thrown(b, AnswerPart::Data(Part::More)))
        );
        assert_eq!(
            send(&mut all, FrameType::RESET, 0, b),
            Ok(AnswerEvent::Thrown(b, AnswerPart::Reset))
        );
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
        assert_eq!(
            (answer.close(&mut all), answer.close(&mut all), all.room(shared)),
            (Some(id), None, 1)
        );
    }

    #[test]
    fn the_services_side() {
        let mut answer = AnswerService::default();
        assert_eq!(rule(answer.receive(&header(FrameType::RESET, 0, 3))), "P-3");
        assert_eq!(
            answer.receive(&header(FrameType::WELCOME, 0, 0)),
            Ok(AnswerServiceEvent::Welcome)
        );
        assert!(answer.begin(3) && !answer.begin(4));
        assert_eq!(
            answer.receive(&header(FrameType::RESET, 0, 3)),
            Ok(AnswerServiceEvent::Cancel)
        );
        answer.finish();
        assert_eq!(
            answer.receive(&header(FrameType::RESET, 0, 3)),
            Ok(AnswerServiceEvent::Ignored)
        );
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
        assert_eq!(
            own.receive(&header(FrameType::RESET, 0, 1)),
            Ok(OwnEvent::Thrown(AnswerPart::Reset))
        );
        assert!(own.is_idle() && !own.cancel());
    }

    #[test]
    fn the_services_side() {
        let mut own = OwnService::default();
        assert_eq!(rule(own.receive(&header(FrameType::REQUEST, END, 1))), "P-3");
        assert_eq!(
            own.receive(&header(FrameType::WELCOME, 0, 0)),
            Ok(OwnServiceEvent::Welcome)
        );
        assert_eq!(rule(own.receive(&header(FrameType::DATA, 0, 1))), "P-19");
        assert_eq!(
            own.receive(&header(FrameType::REQUEST, 0, 1)),
            Ok(OwnServiceEvent::Request(1, Part::More))
        );
        assert_eq!(rule(own.receive(&header(FrameType::REQUEST, END, 2))), "P-19");
        assert_eq!(
            own.receive(&header(FrameType::DATA, 0, 1)),
            Ok(OwnServiceEvent::Data(Part::More))
        );
        assert!(own.stop() && !own.stop());
        assert_eq!(own.receive(&header(FrameType::DATA, 0, 1)), Ok(OwnServiceEvent::Thrown));
        assert_eq!(
            own.receive(&header(FrameType::RESET, 0, 1)),
            Ok(OwnServiceEvent::Cancel)
        );
        own.finish();
        assert!(!own.is_idle() && !own.owes_answer());
        assert_eq!(
            own.receive(&header(FrameType::RESET, 0, 1)),
            Ok(OwnServiceEvent::Ignored)
        );
        assert_eq!(
            own.receive(&header(FrameType::DATA, END, 1)),
            Ok(OwnServiceEvent::Thrown)
        );
        assert!(own.is_idle());
        assert_eq!(
            own.receive(&header(FrameType::REQUEST, END, 2)),
            Ok(OwnServiceEvent::Request(2, Part::Last))
        );
        assert_eq!(rule(own.receive(&header(FrameType::DATA, END, 2))), "P-20");
        assert_eq!(rule(own.receive(&header(FrameType::MORE, 0, 0))), "P-23");
    }
}

#[test]
fn the_services_side_of_a_shared_connection() {
    let mut shared = SharedService::new(2);
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 1))), "P-3");
    assert_eq!(
        shared.receive(&header(FrameType::WELCOME, 0, 0)),
        Ok(SharedServiceEvent::Welcome)
    );
    assert_eq!(rule(shared.receive(&header(FrameType::WELCOME, 0, 0))), "P-3");
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, 0, 1))), "P-14");
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 0))), "P-15");
    assert_eq!(
        shared.receive(&header(FrameType::REQUEST, END, 1)),
        Ok(SharedServiceEvent::Request(1))
    );
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 1))), "P-15");
    assert_eq!(
        shared.receive(&header(FrameType::REQUEST, END, 2)),
        Ok(SharedServiceEvent::Request(2))
    );
    assert_eq!(rule(shared.receive(&header(FrameType::REQUEST, END, 3))), "P-14");
    assert_eq!(
        shared.receive(&header(FrameType::RESET, 0, 1)),
        Ok(SharedServiceEvent::Cancel(1))
    );
    assert_eq!(
        shared.receive(&header(FrameType::RESET, 0, 1)),
        Ok(SharedServiceEvent::Ignored)
    );
    assert!(shared.finish(1) && !shared.finish(1));
    assert_eq!(rule(shared.receive(&header(FrameType::LOG, 0, 2))), "P-11");
    assert_eq!(rule(shared.receive(&header(FrameType::PING, 0, 2))), "P-11");
    assert_eq!(shared.open(), 1);
}

#[test]
fn a_violation_reads_well() {
    let error = OwnService::default()
        .receive(&header(FrameType::HELLO, 0, 0))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "P-11: HELLO comes once, from the service (HELLO, exchange 0)"
    );
    let error = OwnService::default().receive(&header(77, 0, 3)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "P-7: an unknown type without IGNORABLE (type 77, exchange 3)"
    );
    assert_eq!(ProtocolError::from(error).to_reset().code, ResetCode::Protocol);
}

fn named<T>(result: Result<T, Violation>) -> Option<T> {
    result
        .map_err(|error| assert!(error.to_string().starts_with("P-"), "{error}"))
        .ok()
}

fn any_header() -> impl Strategy<Value = FrameHeader> {
    let flags = prop_oneof![Just(0u8), Just(END), Just(IGNORABLE), any::<u8>()];
    (0u8..18, flags, 0u16..6).prop_map(|(kind, flags, exchange)| header(kind, flags, exchange))
}

/// What a fair side does next, chosen by a number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open,
    Cancel,
    Answer,
    AnswerElsewhere,
    Reset,
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
                1 => { all.cancel(header.exchange); }
                2 => { let _ = own_gateway.begin(header.exchange, Part::More); }
                3 => { own_gateway.request_ended(); }
                4 => { own_service.finish(); }
                5 => { let _ = own_service.stop(); }
                6 => { shared_service.finish(header.exchange); }
                7 => { let _ = answer_service.begin(header.exchange); }
                8 => { answer_service.finish(); }
                9 => { answer.close(&mut all); }
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

    /// Two fair sides, with frames in flight in both directions, never find a violation, and all exchanges end.
    #[test]
    fn fair_sides_agree(steps in prop::collection::vec((prop_oneof![Just(Step::Open), Just(Step::Cancel), Just(Step::Answer), Just(Step::AnswerElsewhere), Just(Step::Reset)], 0usize..8, any::<bool>()), 0..300)) {
        let mut gateway = GatewayExchanges::default();
        let shared = gateway.add_shared(4);
        let mut answer = AnswerGateway::default();
        let mut service = SharedService::new(4);
        service.receive(&header(FrameType::WELCOME, 0, 0)).unwrap();
        let (mut to_service, mut to_gateway) = (std::collections::VecDeque::new(), std::collections::VecDeque::new());
        let mut open = Vec::new();
        for (step, pick, deliver) in steps {
            match step {
                Step::Open => if let Some(id) = gateway.begin_shared(shared) {
                    to_service.push_back(header(FrameType::REQUEST, END, id));
                },
                Step::Cancel => if gateway.cancel(pick as u16) == CancelOn::Shared(shared) {
                    to_service.push_back(header(FrameType::RESET, 0, pick as u16));
                },
                _ if open.is_empty() => {}
                Step::Answer | Step::Reset | Step::AnswerElsewhere => {
                    let id: u16 = open.swap_remove(pick % open.len());
                    service.finish(id);
                    match step {
                        Step::Answer => to_gateway.push_back((false, header(FrameType::RESPONSE, END, id))),
                        Step::Reset => to_gateway.push_back((false, header(FrameType::RESET, 0, id))),
                        _ => to_gateway.extend([(true, header(FrameType::RESPONSE, 0, id)), (true, header(FrameType::DATA, END, id))]),
                    }
                }
            }
            if deliver {
                if let Some(frame) = to_service.pop_front()
                    && let SharedServiceEvent::Request(id) = service.receive(&frame).unwrap() { open.push(id); }
                if let Some((elsewhere, frame)) = to_gateway.pop_front() {
                    if elsewhere { answer.receive(&frame, &mut gateway).unwrap(); } else { gateway.receive(shared, &frame).unwrap(); }
                }
            }
        }
        for frame in to_service {
            if let SharedServiceEvent::Request(id) = service.receive(&frame).unwrap() { open.push(id); }
        }
        to_gateway.extend(open.into_iter().map(|id| (false, header(FrameType::RESPONSE, END, id))));
        for (elsewhere, frame) in to_gateway {
            if elsewhere { answer.receive(&frame, &mut gateway).unwrap(); } else { gateway.receive(shared, &frame).unwrap(); }
        }
        prop_assert_eq!(gateway.room(shared), 4);
    }
}
