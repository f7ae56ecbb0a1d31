{-# OPTIONS_GHC -Wno-deprecations #-} -- `requestBody` is the only name of the field that wai 3.2.3 has
{-# LANGUAGE OverloadedStrings #-}

-- | Runs WAI applications behind the Pilotlight gateway over Pipe/1: a Unix socket, no web server.
module Pilotlight
  ( runPilotlight,
    runPilotlightWith,
    Settings (..),
    defaultSettings,

    -- * What a request has besides
    requestId,
    deadline,
    requestTrailers,
    setTrailers,
    inform,
    logLine,
    onDrain,

    -- * Ends of an exchange
    Reset,
    resetRefused,
    resetOverloaded,
    resetTooLarge,
    Cancelled (..),
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.STM
import Control.Exception
import Control.Monad
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.ByteString.Lazy as L
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Maybe (fromMaybe, isJust)
import qualified Data.Vault.Lazy as V
import Data.Word (Word16, Word32)
import GHC.Clock (getMonotonicTime)
import Network.HTTP.Types
import Network.Socket (AddrInfo (..), AddrInfoFlag (..), ShutdownCmd (..), SockAddr (..), defaultHints, getAddrInfo, shutdown)
import Network.Wai (Application, Request)
import Network.Wai.Internal hiding (Request)
import qualified Network.Wai.Internal as Wai
import Pilotlight.Service
import Pilotlight.Wire (endFlag, fields, frame, internal, maxFrame, responseHead, shown, upgradeFlag, violation)
import qualified Pilotlight.Wire as W
import System.Environment (lookupEnv)
import System.Exit
import System.IO
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Signals (Handler (..), installHandler, sigINT, sigTERM)

defaultSettings :: Settings
defaultSettings = Settings {maxExchanges = 64, maxOwn = 64, maxUpgraded = 1024}

-- | Answers requests until the gateway, SIGTERM or SIGINT ends the instance; then returns.
runPilotlight :: Application -> IO ()
runPilotlight = runPilotlightWith defaultSettings

runPilotlightWith :: Settings -> Application -> IO ()
runPilotlightWith settings' application = do
  let isFit = all (`elem` [1 .. 4096]) [maxExchanges settings', maxOwn settings'] && maxUpgraded settings' >= 0
  unless isFit (die "pilotlight: maxExchanges and maxOwn must be 1 to 4096")
  variables <- mapM lookupEnv ["PILOTLIGHT_SOCKET", "PILOTLIGHT_TOKEN"]
  case variables of
    [Just path', Just token'] -> do
      hSetBuffering stdout LineBuffering -- the log
      self <-
        Service settings' path' token' (answer application) <$> newTVarIO [] <*> newTVarIO [] <*> newTVarIO 0 <*> newTVarIO []
          <*> newTVarIO False
          <*> newTVarIO False
          <*> newTVarIO Nothing
      serve self
    _ -> hPutStr stderr notStarted >> exitWith (ExitFailure 2)

notStarted :: String
notStarted =
  "pilotlight: PILOTLIGHT_SOCKET is not set.\nThe gateway starts this program; name it in pilotlight.toml:\n\n\
  \    [services.hello]\n    command = [\"./hello\"]\n    transport = \"pipe\"\n"

serve :: Service -> IO ()
serve self = do
  first <- dial self Shared Nothing
  unless (isJust first) (exitWith (ExitFailure 1))
  signalled <- newTVarIO False
  let leave = Catch (atomically (writeTVar signalled True))
  forM_ [sigTERM, sigINT] $ \each -> installHandler each leave Nothing
  bySignal <- atomically $ do
    isSignalled <- readTVar signalled
    isOver <- (||) <$> readTVar (draining self) <*> (isJust <$> readTVar (status self))
    check (isSignalled || isOver)
    writeTVar (draining self) True
    pure isSignalled
  shared <- filter ((== Shared) . linkKind) <$> readTVarIO (links self)
  when bySignal $ forM_ shared $ \each -> atomically (post each (frame W.drain 0 0 [B.replicate 4 0])) -- P-32
  readTVarIO (tunnels self) >>= mapM_ farewell
  late <- newTVarIO False -- for the gateway's DRAIN; `registerDelay` wants the threaded runtime
  void (forkIO (threadDelay 1000000 >> atomically (writeTVar late True)))
  atomically $ do
    isOver <- isJust <$> readTVar (status self)
    isFree <- (||) <$> readTVar (released self) <*> readTVar late
    open <- readTVar (busy self)
    check (isOver || (isFree && open == 0))
    unless isOver (readTVar (links self) >>= mapM_ settle)
  result <- readTVarIO (status self)
  readTVarIO (links self) >>= mapM_ (`shut` "")
  when (result == Just 1) (exitWith (ExitFailure 1))

-- | Runs the application for one exchange; whatever it throws, only this exchange ends by it. Only the application itself
-- can be interrupted by a cancel.
answer :: Application -> Exchange -> IO ()
answer application exchange = mask $ \restore -> do
  result <- try (restore (application (wai exchange) (respond exchange)))
  case result of
    Right ResponseReceived -> end internal 0 "the application did not answer"
    Left error'
      | Just (Reset code' retryAfter text) <- fromException error' -> end code' retryAfter text
      | Just Cancelled <- fromException error' -> end W.cancelled 0 "cancelled"
      | otherwise -> do
        end internal 0 "an exception in the application"
        say (displayException error')
  where
    -- P-29: no REFUSED after a frame of the answer
    end code' retryAfter text = void $ atomically $ do
      now <- readTVar (code exchange)
      hasBegun <- readTVar (begun exchange)
      let right = if now /= 0 then now else if hasBegun then internal else code'
      final exchange [W.resetFrame (number exchange) right retryAfter text]

wai :: Exchange -> Request
wai exchange =
  Wai.Request
    { requestMethod = method,
      httpVersion = if protocol' == "HTTP/1.0" then http10 else http11,
      rawPathInfo = path',
      rawQueryString = query,
      requestHeaders = ("host", authority) : [("connection", "Upgrade") | isOffered exchange] <> headers_ exchange,
      isSecure = scheme == "https",
      remoteHost = address peer,
      pathInfo = decodePathSegments path',
      queryString = parseQuery query,
      requestBody = readBody exchange,
      vault = V.insert key exchange V.empty,
      requestBodyLength = maybe ChunkedBody (KnownLength . fromIntegral) (lookup hContentLength (headers_ exchange) >>= number'),
      requestHeaderHost = Just authority,
      requestHeaderRange = lookup hRange (headers_ exchange),
      requestHeaderReferer = lookup hReferer (headers_ exchange),
      requestHeaderUserAgent = lookup hUserAgent (headers_ exchange)
    }
  where
    [method, scheme, authority, target, protocol', peer, _] = texts exchange
    (path', query) = C.break (== '?') target
    number' text = fst <$> C.readInt text

-- | @address:port@ of the client.
address :: B.ByteString -> SockAddr
address peer = unsafePerformIO $ do
  let (host, port) = C.breakEnd (== ':') peer
      plain = C.unpack (C.filter (`notElem` ("[]" :: String)) (C.dropWhileEnd (== ':') host))
      hints = defaultHints {addrFlags = [AI_NUMERICHOST, AI_NUMERICSERV]}
  found <- try (getAddrInfo (Just hints) (Just plain) (Just (C.unpack port)))
  pure $ case found of
    Right (first : _) -> addrAddress first
    Right [] -> SockAddrUnix ""
    Left error' -> const (SockAddrUnix "") (error' :: IOException)

-- | The next piece of the body; empty at its end.
readBody :: Exchange -> IO B.ByteString
readBody exchange = atomically $ do
  piece <- readTVar (input exchange)
  isEnded <- readTVar (ended exchange)
  check (isJust piece || isEnded)
  writeTVar (input exchange) Nothing
  now <- readTVar (code exchange)
  when (now /= 0) (throwSTM Cancelled) -- P-34: a body that stops is not a whole one
  pure (fromMaybe B.empty piece)

respond :: Exchange -> Response -> IO ResponseReceived
respond exchange response = do
  case response of
    ResponseBuilder status' headers body -> start status' headers >>= \at -> collected at (Builder.toLazyByteString body)
    ResponseStream status' headers body -> start status' headers >>= \at -> streamed exchange at body
    ResponseFile status' headers path' part' -> start status' headers >>= \at -> file at path' part'
    ResponseRaw handle' fallback
      | isOffered exchange -> hijacked exchange handle'
      | otherwise -> void (respond exchange fallback)
  pure ResponseReceived
  where
    hasBody code' = head (texts exchange) /= "HEAD" && code' /= 204 && code' /= 304
    start status' headers = do
      unless (statusCode status' >= 200 && statusCode status' <= 999) $ violation ["the status is ", shown (statusCode status')]
      top <- evaluate (responseHead (statusCode status') (fields headers))
      Out (hasBody (statusCode status')) <$> newIORef (Just top)
    collected at body = do
      forM_ (L.toChunks body) (write at exchange)
      finish at exchange
    file at path' part' = do
      withBinaryFile path' ReadMode $ \from -> do
        size <- hFileSize from
        let (offset, count) = maybe (0, size) (\each -> (filePartOffset each, filePartByteCount each)) part'
        hSeek from AbsoluteSeek offset
        let copy left = when (left > 0) $ do
              bytes <- B.hGetSome from (fromIntegral (min left (fromIntegral maxFrame)))
              unless (B.null bytes) (send at exchange bytes >> copy (left - fromIntegral (B.length bytes)))
        when (wanted at) (copy count)
      finish at exchange

-- | An answer in the making: whether its body is sent, and its head as long as that was not.
data Out = Out {wanted :: Bool, top_ :: IORef (Maybe B.ByteString)}

streamed :: Exchange -> Out -> StreamingBody -> IO ()
streamed exchange at body = do
  body (\builder -> forM_ (L.toChunks (Builder.toLazyByteString builder)) (write at exchange)) (flushed at exchange)
  finish at exchange

-- | Takes bytes of a body. What fits one frame with the head waits for 'flushed', 'finish' or for more.
write, send :: Out -> Exchange -> B.ByteString -> IO ()
write at exchange bytes = when (wanted at) $ do
  before <- readIORef (top_ at)
  case before of
    Just text | B.length text + B.length bytes <= maxFrame -> writeIORef (top_ at) (Just (text <> bytes))
    _ -> send at exchange bytes
send at exchange bytes = when (wanted at) $ do
  flushed at exchange
  unless (B.null bytes) $ do
    let (piece, rest) = B.splitAt maxFrame bytes
    stream exchange (frame W.data_ 0 (number exchange) [piece])
    send at exchange rest

-- | The head, with what has been written, leaves.
flushed :: Out -> Exchange -> IO ()
flushed at exchange = do
  before <- readIORef (top_ at)
  forM_ before $ \text -> do
    writeIORef (top_ at) Nothing
    stream exchange (frame W.response 0 (number exchange) [text])

-- | Sends a frame that is not the final one.
stream :: Exchange -> B.ByteString -> IO ()
stream exchange bytes = do
  link <- leaveShared exchange
  now <- readTVarIO (code exchange)
  when (now /= 0) (throwIO Cancelled)
  atomically (writeTVar (begun exchange) True >> post link bytes)
  atomically (settle link)

finish :: Out -> Exchange -> IO ()
finish at exchange = do
  end <- fields <$> readTVarIO (trailers_ exchange)
  unless (B.null end) (flushed at exchange)
  before <- readIORef (top_ at)
  let last' = case before of
        Just text -> frame W.response endFlag (number exchange) [text]
        Nothing | B.null end -> frame W.data_ endFlag (number exchange) []
        Nothing -> frame W.trailers 0 (number exchange) [end]
  now <- readTVarIO (code exchange)
  when (now /= 0) (throwIO Cancelled)
  void (atomically (final exchange [last']))

-- | WAI's way to another protocol: the application writes the head of an HTTP/1.1 answer, then bytes. A 101 becomes a
-- RESPONSE with UPGRADE (P-40); any other answer has to be whole when its head is.
hijacked :: Exchange -> (IO B.ByteString -> (B.ByteString -> IO ()) -> IO ()) -> IO ()
hijacked exchange handle' = do
  head' <- newIORef (Just B.empty)
  let sender bytes = readIORef head' >>= maybe (sendRaw bytes) (\before -> opening head' (before <> bytes))
  handle' (readBody exchange) sender `finally` ends
  where
    link = source exchange
    self = service link
    sendRaw bytes = unless (B.null bytes) (atomically (post link bytes) >> atomically (settle link))
    opening head' text = case B.breakSubstring "\r\n\r\n" text of
      (_, rest) | B.null rest -> writeIORef head' (Just text)
      (lines', rest) -> writeIORef head' Nothing >> reply (C.lines (C.filter (/= '\r') lines')) (B.drop 4 rest)
    reply [] _ = violation ["an answer without a status line"]
    reply (line : others) rest = do
      let status' = maybe 0 fst (C.readInt (B.take 3 (B.drop 9 line)))
          headers = [(CI.mk name, C.dropWhile (== ' ') (B.drop 1 value)) | (name, value) <- map (C.break (== ':')) others]
          protocol' = fromMaybe "" (lookup "upgrade" headers)
          top kept = responseHead status' (kept <> fields headers)
      if status' /= 101
        then void (atomically (final exchange [frame W.response endFlag (number exchange) [top "", rest]]))
        else do
          isFree <- atomically $ do
            others' <- readTVar (tunnels self)
            let isFree = length others' < maxUpgraded (settings self)
            when isFree $ do
              writeTVar (tunnels self) (exchange : others')
              modifyTVar' (links self) (filter ((/= socket_ link) . socket_)) -- P-42
              writeTVar (switched link) (Just exchange)
              void (final exchange [frame W.response upgradeFlag (number exchange) [top ("upgrade\0" <> protocol' <> "\0")]])
              writeTVar (ended exchange) False -- the bytes that come take the place of the body
            pure isFree
          unless isFree (throwIO (resetOverloaded 1 "too many connections have switched protocols"))
          sendRaw rest
    ends = do
      isSwitched <- isJust <$> readTVarIO (switched link)
      when isSwitched $ do
        atomically (settle link)
        atomically (modifyTVar' (tunnels self) (filter ((/= done exchange) . done)))
        void (try (shutdown (socket_ link) ShutdownSend) :: IO (Either IOException ()))
        shut link ""

key :: V.Key Exchange
key = unsafePerformIO V.newKey
{-# NOINLINE key #-}

-- | Nothing happens, or the default is returned, where the request did not come over the pipe.
with :: Request -> a -> (Exchange -> IO a) -> IO a
with request' none run = maybe (pure none) run (V.lookup key (vault request'))

-- | The gateway's id of the request.
requestId :: Request -> Maybe B.ByteString
requestId request' = last . texts <$> V.lookup key (vault request')

-- | The seconds left for the answer, if there is a limit.
deadline :: Request -> IO (Maybe Double)
deadline request' = with request' Nothing $ \each -> do
  now <- getMonotonicTime
  pure (max 0 . subtract now <$> due each)

-- | Fields behind the body of the request, there when it has been read.
requestTrailers :: Request -> IO [Header]
requestTrailers request' = with request' [] (readTVarIO . requestTrailers_)

-- | Fields to follow the body of the answer, whose field @trailer@ has to name them.
setTrailers :: Request -> [Header] -> IO ()
setTrailers request' headers = with request' () $ \each -> atomically (writeTVar (trailers_ each) headers)

-- | Sends an answer ahead of the answer: 103 with @link@ fields, say.
inform :: Request -> Int -> [Header] -> IO ()
inform request' status' headers = with request' () $ \each -> do
  top <- evaluate (responseHead status' (fields headers))
  stream each (frame W.info 0 (number each) [top])

-- | A log line that belongs to this request; the level is 1 (error) to 5 (trace).
logLine :: Request -> Int -> B.ByteString -> IO ()
logLine request' level text = with request' () $ \each -> atomically $ do
  link <- readTVar (target_ each)
  isDone <- readTVar (done each)
  unless isDone (post link (frame W.log_ 0 (number each) [B.singleton (fromIntegral level), W.cut text]))

-- | Runs this once if the instance is to end while the connection of a 'responseRaw' is open: end it by the means of its
-- protocol (P-43).
onDrain :: Request -> IO () -> IO ()
onDrain request' run = with request' () $ \each -> do
  atomically (writeTVar (whenDraining each) (Just run))
  isDraining <- readTVarIO (draining (service (source each)))
  when isDraining (farewell each)

-- | To be thrown: nothing has happened, another instance may take the request, whatever its method (P-29).
resetRefused :: B.ByteString -> Reset
resetRefused = Reset W.refused 0

-- | As 'resetRefused', and this instance has too much to do for so many seconds.
resetOverloaded :: Double -> B.ByteString -> Reset
resetOverloaded seconds = Reset W.overloaded (round (seconds * 1000) :: Word32)

-- | To be thrown: the body is larger than the application takes (413).
resetTooLarge :: B.ByteString -> Reset
resetTooLarge = Reset (W.tooLarge :: Word16) 0
