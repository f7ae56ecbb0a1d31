{-# LANGUAGE OverloadedStrings #-}

-- | The bytes of Pipe/1: frames, heads and fields; no sockets.
module Pilotlight.Wire where

import Control.Exception (Exception, throw)
import Data.Bits (shiftL, testBit, (.|.))
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import qualified Data.ByteString.Unsafe as U
import qualified Data.CaseInsensitive as CI
import Data.CaseInsensitive.Unsafe (unsafeMk)
import Data.Word (Word16, Word32, Word8)
import Network.HTTP.Types (Header)

-- | A rule is broken: one of docs/spec/pipe.md by the gateway (P-10), or one of this package by the application.
newtype Violation = Violation B.ByteString

instance Show Violation where
  show (Violation text) = C.unpack text

instance Exception Violation

type Kind = Word8

hello, welcome, request, response, info, data_, trailers, stop, reset, ping, pong, drain, more, log_ :: Kind
[hello, welcome, request, response, info, data_, trailers, stop, reset, ping, pong, drain, more, log_] = [1 .. 14]

cancelled, refused, overloaded, internal, protocol, tooLarge :: Word16
(cancelled, refused, overloaded, internal, protocol, tooLarge) = (1, 3, 4, 5, 6, 7)

maxFrame, maxHello, maxText, headerBytes, headBytes :: Int
(maxFrame, maxHello, maxText, headerBytes, headBytes) = (65536, 4096, 1024, 8, 8)

data Frame = Frame
  { kind :: !Kind,
    flags :: !Word8,
    exchangeId :: !Int,
    payload :: !B.ByteString
  }

isEnd, isUpgrade, isIgnorable :: Frame -> Bool
isEnd = (`testBit` 0) . flags
isUpgrade = (`testBit` 1) . flags
isIgnorable = (`testBit` 7) . flags

endFlag, upgradeFlag :: Word8
(endFlag, upgradeFlag) = (1, 2)

-- | The first frame, and what follows; Nothing if it is not whole yet.
split :: Int -> B.ByteString -> Maybe (Frame, B.ByteString)
split limit bytes
  | B.length bytes < headerBytes = Nothing
  | size > limit = violation ["P-6: a frame of ", shown size, " bytes, the limit is ", shown limit]
  | B.length bytes < headerBytes + size = Nothing
  | otherwise = Just (Frame (U.unsafeIndex bytes 4) (U.unsafeIndex bytes 5) (word16 6 bytes) body, rest)
  where
    size = word32 0 bytes
    (body, rest) = B.splitAt size (B.drop headerBytes bytes)

word16, word32 :: Int -> B.ByteString -> Int
word16 at bytes = byte at bytes .|. byte (at + 1) bytes `shiftL` 8
word32 at bytes = word16 at bytes .|. word16 (at + 2) bytes `shiftL` 16

byte :: Int -> B.ByteString -> Int
byte at bytes = fromIntegral (B.index bytes at)

violation :: [B.ByteString] -> a
violation = throw . Violation . B.concat

holds :: Applicative f => Bool -> [B.ByteString] -> f ()
holds condition rule = if condition then pure () else violation rule

shown :: Show a => a -> B.ByteString
shown = C.pack . show

-- | A whole frame.
frame :: Kind -> Word8 -> Int -> [B.ByteString] -> B.ByteString
frame type_ bits exchange parts = B.concat (build header : parts)
  where
    header = Builder.word32LE size <> Builder.word8 type_ <> Builder.word8 bits <> Builder.word16LE (fromIntegral exchange)
    size = fromIntegral (sum (map B.length parts)) :: Word32

build :: Builder.Builder -> B.ByteString
build = L.toStrict . Builder.toLazyByteString

resetFrame :: Int -> Word16 -> Word32 -> B.ByteString -> B.ByteString
resetFrame exchange code retryAfterMs text = frame reset 0 exchange [numbers, cut text]
  where
    numbers = build (Builder.word16LE code <> Builder.word16LE 0 <> Builder.word32LE retryAfterMs)

-- | A text in at most 'maxText' bytes; what is not ASCII is shown as a question mark where it might be cut in two.
cut :: B.ByteString -> B.ByteString
cut text
  | B.all (< 128) text = B.take maxText text
  | otherwise = B.take maxText (B.map (\each -> if each < 128 then each else 63) text)

-- | The strings of a head, of which the first are fixed, the others name, value, name, value … (P-8).
parse :: Int -> B.ByteString -> ([B.ByteString], [Header])
parse fixed block
  | not (B.null block) && B.last block /= 0 = violation ["P-8: no zero byte behind the last string"]
  | length first < fixed = violation ["P-8: fewer than ", shown fixed, " strings"]
  | otherwise = (first, pairs rest)
  where
    (first, rest) = splitAt fixed (if B.null block then [] else B.split 0 (B.init block))
    pairs (name : value : others) = (unsafeMk name, value) : pairs others -- the gateway sends lower case
    pairs [] = []
    pairs _ = violation ["P-8: an odd number of strings"]

-- | Encodes header fields, without those that must not cross (P-8, P-9).
fields :: [Header] -> B.ByteString
fields headers
  | B.length block > maxFrame - headBytes = violation ["P-6: ", shown (B.length block), " bytes of headers do not fit a frame"]
  | otherwise = block
  where
    block = B.concat (concat [[CI.foldedCase name, "\0", value, "\0"] | (name, value) <- headers, crosses name, clean name value])
    crosses name = name `notElem` dropped && (null named || CI.foldedCase name `notElem` named)
    named = concatMap (words' . CI.foldedCase . CI.mk . snd) (filter ((== "connection") . fst) headers)
    words' = filter (not . B.null) . C.splitWith (`elem` (", \t" :: String))
    clean name value
      | B.any bad value || B.any bad (CI.original name) = violation ["P-8: a zero byte, CR or LF in the field ", shown name]
      | otherwise = True
    bad each = each == 0 || each == 10 || each == 13
    dropped = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect", "host"]

-- | The head of RESPONSE and INFO.
responseHead :: Int -> B.ByteString -> B.ByteString
responseHead status block = build header <> block
  where
    header = Builder.word32LE (fromIntegral (B.length block)) <> Builder.word16LE (fromIntegral status) <> Builder.word16LE 0
