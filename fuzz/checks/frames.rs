//! Bytes of a Pipe/1 peer: whatever they are, nothing panics, chunking changes nothing, and each refusal names a rule.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use pilotlight_pipe::control::{Drain, Log, More, parse_ping};
use pilotlight_pipe::frame::{FrameError, FrameHeader, FrameType, MAX_FRAME, flags, missing, split_frame};
use pilotlight_pipe::head::{
    RequestHead, decode_fields, decode_info, decode_offer, decode_request, decode_response, decode_switch,
    encode_fields, encode_request, encode_response,
};
use pilotlight_pipe::hello::{Hello, Welcome};
use pilotlight_pipe::reset::Reset;
use pilotlight_pipe::session::{
    AnswerGateway, AnswerPart, AnswerService, GatewayExchanges, OwnEvent, OwnGateway, OwnService, Part, SharedService,
    Violation,
};

/// The first byte says how the rest is cut into reads.
pub(crate) fn check(data: &[u8]) {
    let Some((&step, stream)) = data.split_first() else {
        return;
    };
    let whole = split_all(stream, stream.len().max(1));
    assert_eq!(whole, split_all(stream, usize::from(step).max(1)), "the cutting of the stream changed its frames");
    for (header, payload) in &whole.0 {
        decode(header, payload);
    }
    sessions(&whole.0);
    offers(&whole.0);
}

type Split = (Vec<(FrameHeader, Bytes)>, Option<FrameError>);

fn split_all(stream: &[u8], step: usize) -> Split {
    let (mut frames, mut buffer) = (Vec::new(), BytesMut::new());
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match split_frame(&mut buffer, MAX_FRAME) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(missing(&buffer, MAX_FRAME).is_ok_and(|bytes| bytes > 0), "an incomplete frame wants no more bytes");
    }
    (frames, None)
}

fn decode(header: &FrameHeader, payload: &Bytes) {
    assert_eq!(FrameHeader::decode(&header.encode()), *header);
    match header.kind {
        FrameType::HELLO => {
            if let Ok(hello) = Hello::parse(payload) {
                let again = frame(|out| hello.encode(out));
                // Texts for people are cleaned when they are written; what decides is the same.
                let decides = |hello: Hello| (hello.kind, hello.worker, hello.exchanges, hello.max_own, hello.pid);
                assert_eq!(Hello::parse(&again).map(decides), Ok(decides(hello)));
            }
        }
        FrameType::WELCOME => {
            if let Ok(welcome) = Welcome::parse(payload) {
                let again = frame(|out| welcome.encode(out));
                let decides = |welcome: Welcome| (welcome.worker, welcome.max_frame, welcome.instance);
                assert_eq!(Welcome::parse(&again).map(decides), Ok(decides(welcome)));
            }
        }
        FrameType::REQUEST => request(header, payload),
        FrameType::RESPONSE => response(header, payload),
        FrameType::INFO => {
            if let Ok((status, _)) = decode_info(payload.clone()) {
                assert!(status.is_informational(), "INFO with status {status}");
            }
        }
        FrameType::TRAILERS => {
            if let Ok(fields) = decode_fields(payload) {
                let again = frame(|out| assert!(encode_fields(out, 1, &fields).is_ok(), "what was read fits a frame"));
                assert!(decode_fields(&again).is_ok(), "trailers that were read cannot be read again");
            }
        }
        FrameType::RESET => {
            if let Ok(reset) = Reset::parse(payload) {
                let again = frame(|out| reset.encode(out, header.exchange));
                assert_eq!(Reset::parse(&again).map(|reset| reset.code), Ok(reset.code));
            }
        }
        FrameType::PING | FrameType::PONG => assert_eq!(parse_ping(payload).is_ok(), payload.len() == 8),
        FrameType::DRAIN => drop(Drain::parse(payload)),
        FrameType::MORE => drop(More::parse(payload)),
        FrameType::LOG => drop(Log::parse(payload)),
        _ => {}
    }
}

fn request(header: &FrameHeader, payload: &Bytes) {
    let decode = if header.is_upgrade() { decode_offer } else { decode_request };
    let Ok((request, body)) = decode(payload.clone()) else {
        return;
    };
    let head = RequestHead {
        method: request.method.as_str(),
        scheme: request.scheme(),
        authority: request.authority(),
        target: request.target(),
        protocol: request.protocol(),
        peer: request.peer(),
        request_id: request.request_id(),
        deadline_ms: request.deadline_ms,
        headers: &request.headers,
    };
    let mut out = BytesMut::new();
    if encode_request(&mut out, header.exchange, header.flags, &head, &body).is_err() {
        return;
    }
    let again = split_all(&out, out.len()).0.pop().and_then(|(_, payload)| decode(payload).ok());
    assert!(
        again.is_some_and(|(other, rest)| {
            let is_same = (&other.method, other.target()) == (&request.method, request.target());
            rest == body && is_same && other.headers == request.headers
        }),
        "a request that was read and written is another one"
    );
}

fn response(header: &FrameHeader, payload: &Bytes) {
    if let Ok(fields) = decode_switch(payload.clone()) {
        let mut out = BytesMut::new();
        let status = StatusCode::SWITCHING_PROTOCOLS;
        if encode_response(&mut out, header.exchange, flags::UPGRADE, status, &fields, &[]).is_ok() {
            let again = split_all(&out, out.len()).0.pop().and_then(|(_, payload)| decode_switch(payload).ok());
            assert_eq!(again.as_ref(), Some(&fields), "a switch that was read and written is another one");
        }
    }
    let Ok((status, fields, body)) = decode_response(payload.clone()) else {
        return;
    };
    let mut out = BytesMut::new();
    if encode_response(&mut out, header.exchange, header.flags, status, &fields, &body).is_err() {
        return;
    }
    let again = split_all(&out, out.len()).0.pop().and_then(|(_, payload)| decode_response(payload).ok());
    assert!(
        again.is_some_and(|(other, _, rest)| other == status && rest == body),
        "an answer that was read and written is another one"
    );
}

/// The payload of the frame that `encode` writes.
fn frame(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    encode(&mut out);
    let (mut frames, error) = split_all(&out, out.len().max(1));
    assert!(error.is_none() && frames.len() == 1, "not one frame was written");
    frames.pop().map(|(_, payload)| payload).unwrap_or_default()
}

/// Feeds the frames to each state machine until it refuses one.
fn sessions(frames: &[(FrameHeader, Bytes)]) {
    let headers = || frames.iter().map(|(header, _)| header);

    let mut shared = SharedService::new(4);
    refused(headers().map(|header| shared.receive(header).map(drop)));
    let mut own = OwnService::default();
    refused(headers().map(|header| {
        let result = own.receive(header).map(drop);
        if header.exchange & 1 == 1 && own.owes_answer() {
            own.finish();
        }
        result
    }));
    let mut own = OwnService::default();
    own.agreed(1);
    refused(headers().map(|header| {
        let result = own.receive(header).map(drop);
        assert!(!own.is_offered() || own.owes_answer(), "an offer that needs no answer");
        match header.exchange & 3 {
            0 => {}
            1 => own.finish(),
            _ => own.answer_begun(),
        }
        result
    }));
    let mut answer = AnswerService::default();
    refused(headers().map(|header| answer.receive(header).map(drop)));

    let mut exchanges = GatewayExchanges::default();
    let id = exchanges.add_shared(3);
    while exchanges.begin_shared(id).is_some() {}
    exchanges.cancel(2);
    let mut answers = AnswerGateway::default();
    refused(headers().map(|header| answers.receive(header, &mut exchanges).map(drop)));
    answers.close(&mut exchanges);
    refused(headers().map(|header| exchanges.receive(id, header).map(drop)));
    exchanges.remove_shared(id, &mut Vec::new());

    let mut own = OwnGateway::default();
    refused(headers().map(|header| {
        if own.is_idle() {
            assert!(own.begin(1, Part::More), "an idle connection takes no request");
            assert!(!own.has_received(), "a new exchange has received something already");
        }
        let result = own.receive(header).map(drop);
        if own.must_end_request() {
            own.request_ended();
        }
        result
    }));
}

/// As a service that is offered a switch each time.
fn offers(frames: &[(FrameHeader, Bytes)]) {
    let mut own = OwnGateway::default();
    refused(frames.iter().map(|(header, _)| {
        if own.is_idle() {
            assert!(own.begin_offer(1) && own.is_offering(), "an idle connection takes no offer");
        }
        let event = own.receive(header)?;
        if event == OwnEvent::Part(AnswerPart::Switched) {
            assert!(own.is_idle() && header.is_upgrade() && !header.is_end(), "a switch that ends nothing");
        }
        assert!(!own.is_sending(), "an offer has no body");
        Ok(())
    }));
}

fn refused(mut results: impl Iterator<Item = Result<(), Violation>>) {
    if let Some(violation) = results.find_map(Result::err) {
        let number = violation.rule.strip_prefix("P-").and_then(|number| number.parse::<u8>().ok());
        assert!(number.is_some_and(|number| (1..=43).contains(&number)), "{violation} names no rule");
        assert!(violation.to_string().starts_with(violation.rule), "{violation} does not begin with its rule");
    }
}
