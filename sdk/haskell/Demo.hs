{-# LANGUAGE OverloadedStrings #-}

-- | The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the gateway.
module Main (main) where

import Control.Concurrent (threadDelay)
import Control.Exception (evaluate, finally, throwIO)
import Control.Monad (forM_, forever, unless, when)
import qualified Crypto.Hash.SHA256 as SHA256
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.List (isPrefixOf)
import Data.Maybe (fromMaybe)
import qualified Data.Set as Set
import Network.HTTP.Types
import Network.Wai
import Pilotlight
import Network.Wai.Handler.WebSockets (websocketsApp)
import qualified Network.WebSockets as WebSockets
import System.IO (stdout)
import System.Posix.Process (exitImmediately, getProcessID)
import System.Exit (ExitCode (..))

data State = State {cancelledIds, seen :: IORef (Set.Set B.ByteString)}

text, json :: Status -> L.ByteString -> Response
text code = responseLBS code [(hContentType, "text/plain")]
json code = responseLBS code [(hContentType, "application/json")]

shown :: Show a => a -> L.ByteString
shown = L.fromStrict . C.pack . show

main :: IO ()
main = do
  state <- State <$> newIORef Set.empty <*> newIORef Set.empty
  runPilotlight (demo state)

demo :: State -> Application
demo state request respond
  | "/echo" `B.isPrefixOf` rawPathInfo request = echo request >>= respond
  | otherwise = case lookup (method <> " " <> C.unpack (rawPathInfo request)) routes of
    Just route -> route
    Nothing -> respond (text status404 "not found\n")
  where
    method = if requestMethod request == "HEAD" then "GET" else C.unpack (requestMethod request)
    value name = fromMaybe "" (lookup name (parseSimpleQuery (rawQueryString request)))
    number name = maybe 0 fst (C.readInt (value name))
    nap = threadDelay . (* 1000)
    routes =
      [ ("GET /download", respond (download (number "bytes"))),
        ("GET /slow", respond (slow (number "chunks") (nap (number "ms")))),
        ("GET /wait", respond (wait (modifyIORef' (cancelledIds state) (Set.insert (value "id"))))),
        ("GET /cancelled", do
            is <- Set.member (value "id") <$> readIORef (cancelledIds state)
            respond (json status200 ("{\"cancelled\":" <> (if is then "true" else "false") <> "}"))),
        ("GET /crash", exitImmediately (ExitFailure 3) >> respond (text status200 "")),
        ("GET /flood", flood (number "bytes") >> respond (json status200 ("{\"flooded\":" <> shown (number "bytes") <> "}"))),
        ("GET /status", respond (text (mkStatus (number "code") "") "")),
        ("GET /cookies", respond (responseLBS status200 [("set-cookie", "a=1"), ("set-cookie", "b=2")] "")),
        ("GET /sleep", nap (number "ms") >> respond (text status200 "slept")),
        ("GET /deadline", do
            left <- deadline request
            let ms = maybe "null" (shown . (truncate :: Double -> Int) . (* 1000)) left
            respond (json status200 ("{\"deadline_ms\":" <> ms <> "}"))),
        ("GET /pid", getProcessID >>= \pid -> respond (json status200 ("{\"pid\":" <> shown (toInteger pid) <> "}"))),
        ("GET /trailers", do
            setTrailers request [("x-trailer", "yes")]
            respond (responseLBS status200 [("trailer", "x-trailer"), (hContentType, "text/plain")] "body")),
        ("GET /error", throwIO (userError "as asked")),
        ("GET /refuse", refuse state request >> respond (text status200 "taken")),
        ("GET /switch", respond (responseRaw (switch request) (text (mkStatus 426 "Upgrade Required") "upgrade required\n"))),
        ("GET /ws", respond (fromMaybe (text (mkStatus 426 "Upgrade Required") "") (websocketsApp options (echoMessages request) request))),
        ("GET /big-header", respond (responseLBS status200 [("x-big", C.replicate (number "bytes") 'x')] "")),
        ("POST /upload", upload request >>= respond),
        ("POST /early", respond (text status413 "too large\n"))
      ]

options :: WebSockets.ConnectionOptions
options = WebSockets.defaultConnectionOptions

echoMessages :: Request -> WebSockets.ServerApp
echoMessages request pending = do
  connection <- WebSockets.acceptRequest pending
  onDrain request (WebSockets.sendCloseCode connection 1001 ("going away" :: B.ByteString))
  forever (WebSockets.receiveDataMessage connection >>= WebSockets.sendDataMessage connection)

echo :: Request -> IO Response
echo request = do
  body <- strictRequestBody request
  let kept = [each | each <- requestHeaders request, "x-echo-" `isPrefixOf` C.unpack (CI.foldedCase (fst each))]
      type' = fromMaybe "application/octet-stream" (lookup hContentType (requestHeaders request))
      target = rawPathInfo request <> rawQueryString request
  pure (responseLBS status200 ([(hContentType, type'), ("x-method", requestMethod request), ("x-target", target)] <> kept) body)

upload :: Request -> IO Response
upload request = go 0 SHA256.init
  where
    go :: Int -> SHA256.Ctx -> IO Response
    go bytes so = do
      piece <- getRequestBodyChunk request
      if B.null piece
        then pure (json status200 ("{\"bytes\":" <> shown bytes <> ",\"sha256\":\"" <> hex (SHA256.finalize so) <> "\"}"))
        else evaluate (SHA256.update so piece) >>= go (bytes + B.length piece)

hex :: B.ByteString -> L.ByteString
hex = Builder.toLazyByteString . Builder.byteStringHex

-- | Byte i repeats after 251.
block :: B.ByteString
block = B.pack (concat (replicate 256 [fromIntegral ((i * 31 + 7) `mod` 251 :: Int) | i <- [0 .. 250]]))

download :: Int -> Response
download size = responseStream status200 [(hContentType, "application/octet-stream"), (hContentLength, C.pack (show size))] body
  where
    body write _ = forM_ [0, B.length block .. size - 1] $ \at -> write (Builder.byteString (B.take (size - at) block))

slow :: Int -> IO () -> Response
slow chunks nap = responseStream status200 [(hContentType, "text/plain")] $ \write flush ->
  forM_ [0 .. chunks - 1] $ \each -> do
    when (each > 0) nap
    write (Builder.string7 ("chunk " <> show each <> "\n")) >> flush

wait :: IO () -> Response
wait ended = responseStream status200 [(hContentType, "text/plain")] $ \write flush ->
  forever (write "tick\n" >> flush >> threadDelay 20000) `finally` ended

flood :: Int -> IO ()
flood size = forM_ [0, B.length line' .. size - 1] $ \at -> B.hPut stdout (B.take (size - at) line')
  where
    line' = B.concat (replicate 600 (C.replicate 99 'f' <> "\n"))

refuse :: State -> Request -> IO ()
refuse state request = do
  let once = fromMaybe "" (lookup "x-once" (requestHeaders request))
  isKnown <- atomicModifyIORef' (seen state) (\known -> (Set.insert once known, Set.member once known))
  unless isKnown (throwIO (resetRefused "the first time"))

-- | Switches to what is offered first, whatever that is, and sends back the bytes that come.
switch :: Request -> IO B.ByteString -> (B.ByteString -> IO ()) -> IO ()
switch request receive send = do
  let offered = C.takeWhile (/= ',') (fromMaybe "" (lookup "upgrade" (requestHeaders request)))
      go = receive >>= \bytes -> unless (B.null bytes) (send bytes >> go)
  send ("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " <> offered <> "\r\n\r\n")
  go
