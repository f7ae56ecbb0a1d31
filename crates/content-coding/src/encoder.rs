//! Encoders that take bytes as they come and give out what is ready.

use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::zstd_safe::CParameter;

use crate::coding::Coding;

/// Levels at which each coding saves most for its time on text that is made as it is asked for.
const ZSTD_LEVEL: i32 = 3; // .cargo/config.toml leaves out the strategies of higher levels
const BROTLI_QUALITY: i32 = 4;
const GZIP_LEVEL: u32 = 5;
/// Bytes of text that an encoder looks back, as a power of two: what bounds its memory, and that of who decodes it
/// (RFC 8878 §3.1.1.1.2 asks for 8 MiB at most).
const WINDOW_LOG: u32 = 18;
/// Of brotli's own buffer.
const BROTLI_BUFFER: usize = 4096;

/// An encoder, which holds at most about 2 MiB beside what was not taken out of it.
pub struct Encoder(Inner);

enum Inner {
    Zstd(Box<zstd::Encoder<'static, Vec<u8>>>),
    Br(Box<CompressorWriter<Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

/// An encoder has failed, which says that there is no memory.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be compressed: {0}")]
pub struct EncodeError(#[from] io::Error);

impl Encoder {
    /// An encoder for a body of which the length may be known.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(coding: Coding, length: Option<u64>) -> Result<Self, EncodeError> {
        let window_log = window_log(length);
        Ok(Self(match coding {
            Coding::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(window_log))?;
                Inner::Zstd(Box::new(encoder))
            }
            Coding::Br => {
                let lgwin = i32::try_from(window_log).unwrap_or(18);
                let params = BrotliEncoderParams { quality: BROTLI_QUALITY, lgwin, ..BrotliEncoderParams::default() };
                Inner::Br(Box::new(CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER, &params)))
            }
            Coding::Gzip => Inner::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL)))),
        }))
    }

    /// All of a body at once.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn whole(coding: Coding, body: &[u8]) -> Result<Bytes, EncodeError> {
        let mut encoder = Self::new(coding, Some(body.len() as u64))?;
        encoder.write(body)?;
        encoder.finish()
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// The rest cannot be encoded.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let done = match &mut self.0 {
            Inner::Zstd(encoder) => encoder.write_all(bytes),
            Inner::Br(encoder) => encoder.write_all(bytes),
            Inner::Gzip(encoder) => encoder.write_all(bytes),
        };
        Ok(done?)
    }

    /// Makes everything that was taken ready to be given out, so that it can be decoded.
    ///
    /// # Errors
    /// The rest cannot be encoded.
    pub fn flush(&mut self) -> Result<(), EncodeError> {
        let done = match &mut self.0 {
            Inner::Zstd(encoder) => encoder.flush(),
            Inner::Br(encoder) => encoder.flush(),
            Inner::Gzip(encoder) => encoder.flush(),
        };
        Ok(done?)
    }

    /// What is ready.
    pub fn take(&mut self) -> Bytes {
        let ready = match &mut self.0 {
            Inner::Zstd(encoder) => encoder.get_mut(),
            Inner::Br(encoder) => encoder.get_mut(),
            Inner::Gzip(encoder) => encoder.get_mut(),
        };
        std::mem::take(ready).into()
    }

    /// Bytes that are ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        match &self.0 {
            Inner::Zstd(encoder) => encoder.get_ref().len(),
            Inner::Br(encoder) => encoder.get_ref().len(),
            Inner::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    /// The end, with what was not given out.
    ///
    /// # Errors
    /// The rest cannot be encoded.
    pub fn finish(self) -> Result<Bytes, EncodeError> {
        Ok(match self.0 {
            Inner::Zstd(encoder) => encoder.finish()?.into(),
            Inner::Br(encoder) => encoder.into_inner().into(),
            Inner::Gzip(encoder) => encoder.finish()?.into(),
        })
    }
}

/// No more than the body needs.
fn window_log(length: Option<u64>) -> u32 {
    let needed = length.map_or(WINDOW_LOG, |length| u64::BITS - length.saturating_sub(1).leading_zeros());
    needed.clamp(10, WINDOW_LOG)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    /// As much as can be decoded of it.
    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut reader: Box<dyn Read> = match coding {
            Coding::Zstd => Box::new(zstd::Decoder::new(bytes).unwrap()),
            Coding::Br => Box::new(brotli::Decompressor::new(bytes, 4096)),
            Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        };
        let (mut out, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            out.extend_from_slice(&piece[..count]);
        }
        out
    }

    #[test]
    fn what_was_flushed_can_be_decoded() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding, None).unwrap();
            let mut out = Vec::new();
            for event in 1..=3 {
                encoder.write(format!("data: {event}\n\n").as_bytes()).unwrap();
                encoder.flush().unwrap();
                out.extend_from_slice(&encoder.take());
                let whole: String = (1..=event).map(|event| format!("data: {event}\n\n")).collect();
                assert_eq!(decoded(coding, &out), whole.as_bytes(), "{coding:?}");
            }
            assert_eq!(encoder.ready(), 0);
            out.extend_from_slice(&encoder.finish().unwrap());
            assert_eq!(decoded(coding, &out).len(), 27);
        }
    }

    #[test]
    fn text_becomes_shorter() {
        let text = "the same words again and again; ".repeat(4000);
        for coding in Coding::ALL {
            let out = Encoder::whole(coding, text.as_bytes()).unwrap();
            assert!(out.len() < text.len() / 50, "{coding:?}: {}", out.len());
            assert_eq!(decoded(coding, &out), text.as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_comes_back(pieces in prop::collection::vec((prop::collection::vec(0_u8..8, 0..3000), any::<bool>()), 0..8), known in any::<bool>()) {
            let whole: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.clone()).collect();
            for coding in Coding::ALL {
                let mut encoder = Encoder::new(coding, known.then_some(whole.len() as u64)).unwrap();
                let mut out = Vec::new();
                for (piece, flush) in &pieces {
                    encoder.write(piece).unwrap();
                    if *flush {
                        encoder.flush().unwrap();
                        out.extend_from_slice(&encoder.take());
                    }
                }
                out.extend_from_slice(&encoder.finish().unwrap());
                prop_assert_eq!(decoded(coding, &out), whole.clone());
            }
        }
    }
}
