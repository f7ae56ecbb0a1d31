{-# LANGUAGE OverloadedStrings #-}

-- | The gateway's side of Pipe/1 over a real Unix socket; the service is this program again, in a process of its own.
module Main (main) where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import Data.Char (toLower)
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isNothing)
import GHC.Clock (getMonotonicTime)
import Network.HTTP.Types
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Network.Wai
import Network.Wai.Handler.WebSockets (websocketsOr)
import qualified Network.WebSockets as WebSockets
import Pilotlight
import Pilotlight.Wire hiding (split)
import qualified Pilotlight.Wire as Wire
import System.Directory (removeDirectoryRecursive)
import System.Environment
import System.Exit
import System.IO
import System.Posix.Signals (sigKILL, signalProcess)
import System.Posix.Temp (mkdtemp)
import System.Process
import System.Timeout (timeout)
import Text.Printf (printf)

main :: IO ()
main = lookupEnv "PILOTLIGHT_SOCKET" >>= maybe tests (const service)

-- The service.

service :: IO ()
service = do
  notes <- newIORef ("" :: B.ByteString)
  runPilotlightWith defaultSettings {maxUpgraded = 1} (websocketsOr WebSockets.defaultConnectionOptions talk (app notes))
  where
    talk pending = do
      connection <- WebSockets.acceptRequest pending
      forever (WebSockets.receiveDataMessage connection >>= WebSockets.sendDataMessage connection)

app :: IORef B.ByteString -> Application
app notes request' respond = case rawPathInfo request' of
  "/request" -> do
    body <- strictRequestBody request'
    behind <- requestTrailers request'
    left <- deadline request'
    respond (ok (C.pack (show (requestMethod request', rawPathInfo request', pathInfo request', rawQueryString request')) <> "\n"
      <> C.pack (show (requestHeaders request', remoteHost request', isSecure request', requestBodyLength request')) <> "\n"
      <> C.pack (show (L.toStrict body, behind, requestId request', fmap (round :: Double -> Int) left))))
  "/sleep" -> (threadDelay 60000000 >> respond (ok "")) `onException` writeIORef notes "interrupted"
  "/notes" -> readIORef notes >>= respond . ok
  "/small-stream" -> respond (responseStream status200 [] (\write _ -> write "a" >> write "b"))
  "/flushed" -> respond (responseStream status200 [] (\write flush -> write "a" >> flush >> write "b"))
  "/large" -> respond (responseLBS status200 [] (L.replicate 200000 120))
  "/file" -> respond (responseFile status200 [] "/proc/self/cmdline" Nothing)
  "/part" -> respond (responseFile status200 [] "/etc/passwd" (Just (FilePart 2 3 0)))
  "/cr" -> respond (responseLBS status200 [("x", "a\rb")] "")
  "/status" -> respond (responseLBS (mkStatus 99 "") [] "")
  "/throw" -> throwIO (userError "as asked")
  "/refused" -> throwIO (resetRefused "")
  "/overloaded" -> throwIO (resetOverloaded 2 "full")
  "/too-large" -> throwIO (resetTooLarge "")
  "/hints" -> do
    inform request' 103 [("link", "</a.css>")]
    logLine request' 2 "said"
    setTrailers request' [("x-sum", "1")]
    respond (responseLBS status200 [("Trailer", "x-sum"), ("Connection", "x-hop"), ("x-hop", "1"), ("X-A", "1"), ("x-a", "2")] "body")
  "/decline" -> respond (responseRaw (\_ send -> send "HTTP/1.1 403 Forbidden\r\nX-A: b" >> send "\r\n\r\nno") (ok "fallback"))
  _ -> respond (responseLBS status404 [] "")
  where
    ok text = responseLBS status200 [] (L.fromStrict text)

-- The gateway.

data Peer = Peer {conn :: Socket, rest :: IORef B.ByteString}

-- | 'peers' keeps connections open: an unused socket is closed by the garbage collector.
data Gate = Gate {listener :: Socket, process :: ProcessHandle, log' :: FilePath, peers :: IORef [Peer]}

within :: String -> IO a -> IO a
within what run = timeout 20000000 run >>= maybe (fail ("not within 20 s: " <> what)) pure

accepted :: Gate -> IO Peer
accepted gate = do
  (sock, _) <- within "a connection" (accept (listener gate))
  buffer <- newIORef ""
  let peer = Peer sock buffer
  modifyIORef' (peers gate) (peer :)
  _ <- got peer
  peer <$ put peer [frame welcome 0 0 ["PIPE/1\nworker=0\nmax_frame=65536\nminor=1\n"]]

put :: Peer -> [B.ByteString] -> IO ()
put peer = sendAll (conn peer) . B.concat

-- | The next frame; Nothing at the end of the stream.
next :: Peer -> IO (Maybe Frame)
next peer = within "a frame" go
  where
    go = do
      before <- readIORef (rest peer)
      case Wire.split maxFrame before of
        Just (it, others) -> Just it <$ writeIORef (rest peer) others
        Nothing -> recv (conn peer) 65536 >>= \more' -> if B.null more' then pure Nothing else writeIORef (rest peer) (before <> more') >> go

bytes :: Peer -> Int -> IO B.ByteString
bytes peer count = within "bytes" go
  where
    go = do
      before <- readIORef (rest peer)
      if B.length before >= count
        then B.take count before <$ writeIORef (rest peer) (B.drop count before)
        else recv (conn peer) 65536 >>= \more' -> when (B.null more') (fail "the end of the stream") >> writeIORef (rest peer) (before <> more') >> go

got :: Peer -> IO Frame
got peer = next peer >>= maybe (fail "the end of the stream") pure

own :: Gate -> Peer -> IO Peer
own gate shared = put shared [frame more 0 0 ["\1\0\1\0\0\0\0\0"]] >> accepted gate

ask :: Int -> B.ByteString -> B.ByteString
ask exchange target = asked exchange target [] "" 0 1

asked :: Int -> B.ByteString -> [(B.ByteString, B.ByteString)] -> B.ByteString -> Int -> Int -> B.ByteString
asked exchange target headers body deadlineMs bits = frame request (fromIntegral bits) exchange [build (int (B.length block) <> int deadlineMs), block, body]
  where
    int = Builder.word32LE . fromIntegral
    strings = ["GET", "http", "demo.test:8080", target, "HTTP/1.1", "127.0.0.1:5", "r-1"] <> concat [[name, value] | (name, value) <- headers]
    block = B.concat (map (<> "\0") strings)

-- | Status, fields and body of a RESPONSE.
shownAnswer :: Frame -> (Int, [Header], B.ByteString)
shownAnswer it = (word16 4 (payload it), snd (parse 0 block), body)
  where
    (block, body) = B.splitAt (word32 0 (payload it)) (B.drop 8 (payload it))

bodyOf :: Frame -> B.ByteString
bodyOf it = let (_, _, body) = shownAnswer it in body

code' :: Frame -> (Bool, Int)
code' it = (kind it == reset, word16 0 (payload it))

same :: (Eq a, Show a) => a -> a -> IO ()
same expected actual = unless (expected == actual) (fail ("expected " <> show expected <> ", got " <> show actual))

eventually :: String -> IO Bool -> IO ()
eventually what run = within what go
  where
    go = run >>= \is -> unless is (threadDelay 10000 >> go)

upgrade :: [(B.ByteString, B.ByteString)]
upgrade = [("upgrade", "websocket"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")]

-- The tests.

scenarios :: [(String, Gate -> Peer -> IO ())]
scenarios =
  [ ("a request", aRequest),
    ("a cancel interrupts the application", aCancel),
    ("streams and files", streams),
    ("errors end their own exchange", errors),
    ("hints, a log line and trailers", hints),
    ("a WebSocket of wai-websockets", webSocket),
    ("a raw answer that declines, and the limit of upgrades", declines),
    ("a batch, in any order", batch),
    ("drain", drained)
  ]

aRequest :: Gate -> Peer -> IO ()
aRequest gate shared = do
  alone <- own gate shared
  put alone [asked 1 "/request?a=b%20c" [("x-a", "1"), ("x-a", "2"), ("content-length", "6")] "one" 5000 0, frame data_ 0 1 ["two"], frame trailers 0 1 ["x-sum\0abc\0"]]
  answer <- got alone
  let expected =
        [ "(\"GET\",\"/request\",[\"request\"],\"?a=b%20c\")",
          "([(\"host\",\"demo.test:8080\"),(\"x-a\",\"1\"),(\"x-a\",\"2\"),(\"content-length\",\"6\")],127.0.0.1:5,False,KnownLength 6)",
          "(\"onetwo\",[(\"x-sum\",\"abc\")],Just \"r-1\",Just 5)"
        ]
  same expected (C.lines (bodyOf answer))

aCancel :: Gate -> Peer -> IO ()
aCancel _ shared = do
  put shared [ask 1 "/sleep", ask 2 "/notes"]
  second <- got shared
  same (2, "") (exchangeId second, bodyOf second)
  put shared [resetFrame 1 cancelled 0 ""]
  got shared >>= same (True, fromIntegral cancelled) . code'
  put shared [ask 1 "/notes"]
  got shared >>= same "interrupted" . bodyOf

streams :: Gate -> Peer -> IO ()
streams gate shared = do
  put shared [ask 1 "/small-stream"]
  got shared >>= \it -> same (1, "ab") (flags it, bodyOf it) -- what was not flushed is one frame
  put shared [ask 1 "/flushed"]
  answer <- accepted gate
  got answer >>= \it -> same (0, "a") (flags it, bodyOf it)
  got answer >>= same "b" . payload
  got answer >>= same (True, "") . \it -> (isEnd it, payload it)
  put shared [ask 1 "/large"]
  let whole sizes = got answer >>= \it -> let all' = B.length (payload it) : sizes in if isEnd it then pure (sum all') else whole all'
  whole [] >>= same 200008 -- with the head
  put shared [ask 1 "/part"]
  parts <- replicateM 2 (got answer)
  expected <- B.take 3 . B.drop 2 <$> B.readFile "/etc/passwd"
  same ["", expected] [bodyOf (head parts), payload (parts !! 1)]

errors :: Gate -> Peer -> IO ()
errors gate shared = do
  let ends = [("/cr", internal), ("/status", internal), ("/throw", internal), ("/refused", refused), ("/too-large", tooLarge)]
  forM_ ends $ \(path, reason) -> put shared [ask 1 path] >> got shared >>= same (True, fromIntegral reason) . code'
  put shared [ask 1 "/overloaded"]
  got shared >>= same "\4\0\0\0\xd0\7\0\0full" . payload
  eventually "the log" $ do
    said <- B.readFile (log' gate)
    pure (all (`B.isInfixOf` said) ["P-8: a zero byte, CR or LF", "as asked"])

hints :: Gate -> Peer -> IO ()
hints gate shared = do
  put shared [ask 1 "/hints"]
  answer <- accepted gate
  got answer >>= \it -> same (info, (103, [("link", "</a.css>")], "")) (kind it, shownAnswer it)
  got answer >>= \it -> same (log_, "\2said") (kind it, payload it)
  got answer >>= same (200, [("trailer", "x-sum"), ("x-a", "1"), ("x-a", "2")], "body") . shownAnswer
  got answer >>= \it -> same (trailers, "x-sum\0\&1\0") (kind it, payload it)

webSocket :: Gate -> Peer -> IO ()
webSocket gate shared = do
  alone <- own gate shared
  put alone [asked 1 "/ws" upgrade "" 0 3]
  answer <- got alone
  let (status', headers, _) = shownAnswer answer
  same (2, 101, Just "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") (flags answer, status', lookup "sec-websocket-accept" headers) -- RFC 6455 §1.3
  same (Just "websocket") (C.map toLower <$> lookup "upgrade" headers)
  put alone ["\x81\x82\0\0\0\0hi", "\x81\x82\0\0\0\0hi"]
  bytes alone 8 >>= same "\x81\2hi\x81\2hi"

declines :: Gate -> Peer -> IO ()
declines gate shared = do
  [first, second, third] <- replicateM 3 (own gate shared)
  put first [asked 1 "/decline" [("upgrade", "other")] "" 0 3]
  got first >>= \it -> same (1, (403, [("x-a", "b")], "no")) (flags it, shownAnswer it)
  put shared [ask 1 "/decline"]
  got shared >>= same "fallback" . bodyOf
  put second [asked 2 "/ws" upgrade "" 0 3]
  got second >>= same upgradeFlag . flags
  put third [asked 3 "/ws" upgrade "" 0 3]
  got third >>= same (True, fromIntegral overloaded) . code' -- P-42
  shutdown (conn second) ShutdownSend
  eventually "room again" (put third [asked 3 "/ws" upgrade "" 0 3] >> ((== response) . kind <$> got third))

batch :: Gate -> Peer -> IO ()
batch _ shared = do
  put shared (map (`ask` "/notes") [1 .. 50])
  ids <- replicateM 50 (exchangeId <$> got shared)
  same (sum [1 .. 50]) (sum ids)

drained :: Gate -> Peer -> IO ()
drained gate shared = do
  put shared [frame drain 0 0 ["\0\0\1\0"], ask 1 "/notes"]
  got shared >>= same (True, fromIntegral refused) . code'
  next shared >>= same True . isNothing
  within "the end" (waitForProcess (process gate)) >>= same ExitSuccess

tests :: IO ()
tests = do
  wanted <- getArgs
  results <- forM [each | each <- scenarios, all (`isInfixOf` fst each) wanted] $ \(name, run) -> do
    since <- getMonotonicTime
    result <- try (bracket begin end (\(_, gate) -> (accepted gate >>= run gate) `onException` (readFile (log' gate) >>= putStr))) :: IO (Either SomeException ())
    took <- subtract since <$> getMonotonicTime
    printf "%s %s %.2f s\n" (either (const "FAIL") (const "ok  ") result :: String) name took
    either (\error' -> print error' >> pure False) (const (pure True)) result
  byHand
  unless (and results) exitFailure
  where
    byHand = do
      self <- getExecutablePath
      (status', _, said) <- readCreateProcessWithExitCode (proc self []) {env = Just [("PILOTLIGHT_SOCKET", "/nowhere")]} ""
      same (ExitFailure 2, True) (status', "The gateway starts this program" `isInfixOf` said)
      putStrLn "ok   by hand"

begin :: IO (FilePath, Gate)
begin = do
  folder <- mkdtemp "/tmp/pl"
  sock <- socket AF_UNIX Stream defaultProtocol
  bind sock (SockAddrUnix (folder <> "/s"))
  listen sock 64
  self <- getExecutablePath
  output <- openFile (folder <> "/log") AppendMode
  let variables = [("PILOTLIGHT_SOCKET", folder <> "/s"), ("PILOTLIGHT_TOKEN", replicate 32 '0')]
  (_, _, _, handle') <- createProcess (proc self []) {env = Just variables, std_out = UseHandle output, std_err = UseHandle output}
  (,) folder . Gate sock handle' (folder <> "/log") <$> newIORef []

end :: (FilePath, Gate) -> IO ()
end (folder, gate) = do
  getPid (process gate) >>= mapM_ (signalProcess sigKILL)
  void (waitForProcess (process gate))
  readIORef (peers gate) >>= mapM_ (close . conn)
  close (listener gate)
  removeDirectoryRecursive folder
