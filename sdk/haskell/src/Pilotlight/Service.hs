{-# LANGUAGE OverloadedStrings #-}

-- | The connections of an instance and their threads.
--
-- A connection has two threads: one reads and never writes, the other writes all that has been finished since it last
-- wrote, so one read and one write serve a batch (P-18). Each exchange has a thread, which only puts bytes where the
-- writer takes them: so an asynchronous exception, which is how a cancel arrives, cannot cut a frame in two.
--
-- Invariant: of a body, what one read brings is all that is held in memory in each direction.
module Pilotlight.Service where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception
import Control.Monad
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C
import qualified Data.IntMap.Strict as M
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word16, Word32)
import GHC.Clock (getMonotonicTime)
import Network.HTTP.Types (Header)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Pilotlight.Wire
import System.IO (stderr)
import System.IO.Error (ioeGetErrorString)
import System.Posix.Process (getProcessID)

-- | Limits of an instance.
data Settings = Settings
  { -- | Requests that a shared connection takes before they are answered; the gateway asks for one such connection for
    -- each of its workers. 1–4096.
    maxExchanges :: Int,
    -- | Large or streamed requests at once. 1–4096.
    maxOwn :: Int,
    -- | Connections that may have switched to another protocol.
    maxUpgraded :: Int
  }

data LinkKind = Shared | Own | Answer deriving (Eq)

-- | One connection to the gateway.
data Link = Link
  { service :: Service,
    linkKind :: LinkKind,
    socket_ :: Socket,
    worker :: TVar (Maybe Int),
    minor :: TVar Int,
    limit :: TVar (Maybe Int), -- Nothing: no WELCOME yet
    open_ :: TVar (M.IntMap Exchange),
    unsent :: TVar [B.ByteString], -- newest first
    isWriting :: TVar Bool,
    isSaid :: TVar Bool, -- nothing more is sent
    isClosed :: TVar Bool,
    early :: TVar (Maybe (TVar (Maybe B.ByteString))), -- a read that goes on, behind an offer
    switched :: TVar (Maybe Exchange)
  }

-- | One exchange. The handler's thread and the reader of its connection share it.
data Exchange = Exchange
  { source :: Link, -- where the request comes
    target_ :: TVar Link, -- where the answer goes
    number :: Int,
    texts :: [B.ByteString],
    headers_ :: [Header],
    isOffered :: Bool,
    due :: Maybe Double,
    input :: TVar (Maybe B.ByteString),
    ended, done, begun :: TVar Bool,
    code :: TVar Word16,
    requestTrailers_, trailers_ :: TVar [Header],
    thread :: TVar (Maybe ThreadId),
    whenDraining :: TVar (Maybe (IO ()))
  }

data Service = Service
  { settings :: Settings,
    path, token :: String,
    handler :: Exchange -> IO (),
    links :: TVar [Link],
    answers :: TVar [Link], -- idle answer connections
    busy :: TVar Int,
    tunnels :: TVar [Exchange], -- that have switched to another protocol
    draining, released :: TVar Bool,
    status :: TVar (Maybe Int)
  }

-- | Ends the exchange without an answer.
data Reset = Reset Word16 Word32 B.ByteString
  deriving (Show)

instance Exception Reset

-- | The client has gone, or the deadline is over. The handler's thread gets it as an asynchronous exception.
data Cancelled = Cancelled
  deriving (Show)

instance Exception Cancelled where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

complain :: String -> IO ()
complain text = say ("pilotlight: " <> text)

-- | A line of the log, in one write.
say :: String -> IO ()
say text = B.hPut stderr (build (Builder.stringUtf8 (text <> "\n")))

-- | Opens a connection and starts its threads.
dial :: Service -> LinkKind -> Maybe Int -> IO (Maybe Link)
dial self which worker' = handle failed $ do
  sock <- socket AF_UNIX Stream defaultProtocol
  connect sock (SockAddrUnix (path self)) `onException` close sock
  pid <- getProcessID
  link <-
    Link self which sock <$> newTVarIO worker' <*> newTVarIO 0 <*> newTVarIO Nothing <*> newTVarIO M.empty
      <*> newTVarIO [frame hello 0 0 [C.pack (greeting pid)]] -- P-1
      <*> newTVarIO False
      <*> newTVarIO False
      <*> newTVarIO False
      <*> newTVarIO Nothing
      <*> newTVarIO Nothing
  atomically (modifyTVar' (links self) (link :))
  void (forkIO (writer link))
  void (forkIO (reader link B.empty))
  pure (Just link)
  where
    failed error' = Nothing <$ complain ("cannot dial the gateway at " <> path self <> ": " <> show (error' :: IOException))
    name = case which of Shared -> "shared"; Own -> "own"; Answer -> "answer"
    greeting pid =
      unlines $
        ["PIPE/1", "token=" <> token self, "kind=" <> name, "sdk=pilotlight-haskell/0.1.0", "pid=" <> show pid, "minor=1"]
          <> maybe [] (\each -> ["worker=" <> show each]) worker'
          <> (if which == Shared then ["exchanges=" <> show (maxExchanges (settings self)), own] else [])
    own = "max_own=" <> show (maxOwn (settings self))

-- | Puts bytes where the writer takes them.
post :: Link -> B.ByteString -> STM ()
post link bytes = do
  nothingMore <- readTVar (isSaid link)
  unless nothingMore (modifyTVar' (unsent link) (bytes :))

-- | Returns when the socket has taken all (P-22).
settle :: Link -> STM ()
settle link = do
  isGone <- readTVar (isClosed link)
  isAtRest <- (&&) <$> (null <$> readTVar (unsent link)) <*> (not <$> readTVar (isWriting link))
  check (isGone || isAtRest)

writer :: Link -> IO ()
writer link = do
  ready <- atomically $ do
    waiting <- readTVar (unsent link)
    isGone <- readTVar (isClosed link)
    check (isGone || not (null waiting))
    writeTVar (unsent link) []
    writeTVar (isWriting link) (not (null waiting))
    pure (reverse waiting)
  unless (null ready) $ do
    result <- try (sendAll (socket_ link) (B.concat ready))
    atomically (writeTVar (isWriting link) False)
    either (\error' -> shut link (show (error' :: IOException))) (const (writer link)) result

reader :: Link -> B.ByteString -> IO ()
reader link before = do
  result <- try (receive link)
  case result of
    Left error' -> shut link (show (error' :: IOException))
    Right bytes | B.null bytes -> shut link ""
    Right bytes -> do
      atomically (modifyTVar' (busy (service link)) (+ 1)) -- the instance does not end in the middle of a batch
      rest <- try (consume link (before <> bytes) >>= evaluate)
      atomically (modifyTVar' (busy (service link)) (subtract 1))
      case rest of
        Right (Just unread) -> reader link unread
        Right Nothing -> pure ()
        Left error' -> broken link error'

-- | Handles the whole frames; returns the rest, or Nothing when another function reads from now on.
consume :: Link -> B.ByteString -> IO (Maybe B.ByteString)
consume link bytes = do
  limit' <- fromMaybe maxHello <$> readTVarIO (limit link)
  case split limit' bytes of
    Nothing -> pure (Just bytes)
    Just (it, rest) -> do
      goesOn <- take_ link it
      if goesOn then consume link rest else pure Nothing

-- | Ends a connection at which the gateway has broken a rule (P-10).
broken :: Link -> SomeException -> IO ()
broken link error' = case fromException error' of
  Just (Violation text) -> do
    complain ("connection closed: " <> C.unpack text)
    -- P-10: nothing follows, whatever handlers still send.
    atomically (post link (resetFrame 0 protocol 0 text) >> writeTVar (isSaid link) True)
    atomically (settle link)
    endWith 1 link
  Nothing -> complain (maybe (show error') ioeGetErrorString (fromException error')) >> endWith 1 link

shut :: Link -> String -> IO ()
shut link _ = endWith 0 link

-- | Ends a connection and its exchanges (P-34). The last shared one ends the service, with this status (P-33).
endWith :: Int -> Link -> IO ()
endWith code' link = do
  orphans <- atomically $ do
    isGone <- swapTVar (isClosed link) True
    modifyTVar' (links self) (filter ((/= socket_ link) . socket_))
    left <- filter ((== Shared) . linkKind) <$> readTVar (links self)
    when (null left && linkKind link == Shared) $ modifyTVar' (status self) (Just . fromMaybe code')
    orphans <- M.elems <$> swapTVar (open_ link) M.empty
    forM_ orphans $ \each -> writeTVar (ended each) True
    pure (if isGone then [] else orphans)
  mapM_ (cancel cancelled) orphans
  void (try (gracefulClose (socket_ link) 0) :: IO (Either IOException ()))
  where
    self = service link

-- | Tells the handler that nobody waits for its answer (P-26).
cancel :: Word16 -> Exchange -> IO ()
cancel reason exchange = do
  target <- atomically $ do
    modifyTVar' (code exchange) (\before -> if before == 0 then reason else before)
    isDone <- readTVar (done exchange)
    if isDone then pure Nothing else readTVar (thread exchange)
  forM_ target $ \each -> forkIO (throwTo each Cancelled)

-- | Handles one frame; whether the reader goes on.
take_ :: Link -> Frame -> IO Bool
take_ link it = do
  isWelcome <- isJust <$> readTVarIO (limit link)
  let is = kind it
      exchanges = is == request || is == reset
      isAllowed = case linkKind link of
        _ | not isWelcome -> is == welcome
        Shared -> exchanges || is `elem` [ping, more, drain]
        Own -> exchanges || is `elem` [ping, data_, trailers]
        Answer -> False
      isKnown = is >= hello && is <= log_
  case () of
    _
      | is == reset && exchangeId it == 0 -> throwIO (userError ("the gateway says: " <> C.unpack (B.drop 8 (payload it))))
      | isAllowed -> dispatch link it
      | isKnown -> violation ["P-11: type ", shown is, " on this kind of connection, or too early"]
      | isIgnorable it -> pure True
      | otherwise -> violation ["P-7: a frame of the unknown type ", shown is]

dispatch :: Link -> Frame -> IO Bool
dispatch link it
  | is == request = begin link it
  | is == ping = True <$ atomically (post link (frame pong 0 0 [payload it])) -- P-35
  | is == welcome = True <$ greet link (payload it)
  | is == drain = True <$ atomically (writeTVar (draining self) True >> writeTVar (released self) True)
  | is == more = True <$ onMore self (payload it)
  | otherwise = True <$ part link it
  where
    is = kind it
    self = service link

greet :: Link -> B.ByteString -> IO ()
greet link text = do
  let keys = [(key, B.drop 1 value) | (key, value) <- map (C.break (== '=')) (C.lines text)]
      int key = lookup key keys >>= fmap fst . C.readInt
  holds (isJust (lookup "PIPE/1" keys) && isJust (int "worker") && isJust (int "max_frame")) ["P-3: not a WELCOME of PIPE/1"]
  atomically $ do
    writeTVar (worker link) (int "worker")
    writeTVar (minor link) (fromMaybe 0 (int "minor"))
    writeTVar (limit link) (max maxFrame <$> int "max_frame")

onMore :: Service -> B.ByteString -> IO ()
onMore self numbers = do
  holds (B.length numbers >= 8) ["P-11: MORE of ", shown (B.length numbers), " bytes"]
  let (which, most) = if word16 0 numbers == 1 then (Own, maxOwn (settings self)) else (Shared, 256)
  have <- length . filter ((== which) . linkKind) <$> readTVarIO (links self)
  replicateM_ (min (word16 2 numbers) (most - have)) (dial self which (Just (word32 4 numbers))) -- P-23

begin :: Link -> Frame -> IO Bool
begin link it = do
  now <- getMonotonicTime
  opened <- readTVarIO (open_ link)
  minor' <- readTVarIO (minor link)
  holds (linkKind link == Shared || M.null opened) ["P-19: REQUEST before the exchange before it has ended"]
  holds (linkKind link == Own || isEnd it) ["P-14: REQUEST without END on a shared connection"]
  holds (M.size opened < maxExchanges (settings self)) ["P-14: too many exchanges at once"]
  holds (exchangeId it /= 0 && M.notMember (exchangeId it) opened) ["P-15: an exchange id is 0 or open"]
  holds (B.length (payload it) >= headBytes) ["P-8: a REQUEST without a head"]
  let (size, deadlineMs) = (word32 0 (payload it), word32 4 (payload it))
      (block, body) = B.splitAt size (B.drop headBytes (payload it))
      (first, others) = parse 7 block
      isOffer = isUpgrade it && linkKind link == Own && minor' > 0
  holds (B.length block == size) ["P-8: head_length is ", shown size, ", the payload shorter"]
  holds (isEnd it || not isOffer) ["P-38: REQUEST with UPGRADE and without END"]
  void (evaluate (length first + length others))
  exchange <-
    Exchange link <$> newTVarIO link <*> pure (exchangeId it) <*> pure first <*> pure others <*> pure isOffer
      <*> pure (if deadlineMs == 0 then Nothing else Just (now + fromIntegral deadlineMs / 1000))
      <*> newTVarIO (if B.null body then Nothing else Just body)
      <*> newTVarIO (isEnd it)
      <*> newTVarIO False
      <*> newTVarIO False
      <*> newTVarIO 0
      <*> newTVarIO []
      <*> newTVarIO []
      <*> newTVarIO Nothing
      <*> newTVarIO Nothing
  isDraining <- readTVarIO (draining self)
  atomically (modifyTVar' (open_ link) (M.insert (number exchange) exchange) >> modifyTVar' (busy self) (+ 1))
  if isDraining
    then True <$ (atomically (final exchange [resetFrame (number exchange) refused 0 "draining"]) >> left) -- P-31
    else do
      mask_ $ do
        id' <- forkIO ((handler self exchange `finally` left) `catch` quiet)
        atomically (writeTVar (thread exchange) (Just id'))
      if isOffer then offered link exchange else pure True
  where
    self = service link
    left = atomically (modifyTVar' (busy self) (subtract 1))
    quiet Cancelled = pure ()

-- | Behind an offer the gateway sends nothing but the end of the stream (P-39); waits for the answer to it. What follows
-- a switch are bytes of the other protocol, which have no frames (P-41).
offered :: Link -> Exchange -> IO Bool
offered link exchange = do
  slot <- newTVarIO Nothing
  atomically (writeTVar (early link) (Just slot))
  void (forkIO ((recv (socket_ link) maxFrame `catch` nothing) >>= atomically . writeTVar slot . Just))
  isSwitched <- atomically $ do
    isOver <- readTVar (done exchange)
    hasCome <- isJust <$> readTVar slot
    check (isOver || hasCome)
    isJust <$> readTVar (switched link)
  if isSwitched then False <$ raw link exchange else pure True

nothing :: IOException -> IO B.ByteString
nothing _ = pure B.empty

-- | The next bytes; empty at the end of the stream.
receive :: Link -> IO B.ByteString
receive link = readTVarIO (early link) >>= maybe (recv (socket_ link) maxFrame) taken
  where
    taken slot = atomically (readTVar slot >>= maybe retry (<$ writeTVar (early link) Nothing))

-- | Hands bytes to the handler, one read at a time, until the client ends its direction.
raw :: Link -> Exchange -> IO ()
raw link exchange = do
  bytes <- receive link `catch` nothing
  isGone <- atomically $ do
    isGone <- readTVar (isClosed link)
    isFree <- null <$> readTVar (input exchange)
    check (isGone || isFree)
    if B.null bytes then writeTVar (ended exchange) True else writeTVar (input exchange) (Just bytes)
    pure isGone
  unless (B.null bytes || isGone) (raw link exchange)

-- | DATA, TRAILERS or RESET of an exchange.
part :: Link -> Frame -> IO ()
part link it = do
  exchange <- M.lookup (exchangeId it) <$> readTVarIO (open_ link)
  isEnded <- maybe (pure True) (readTVarIO . ended) exchange
  holds (kind it == reset || not isEnded) ["P-11: type ", shown (kind it), " of an exchange that is not open"]
  forM_ exchange $ \each -> do
    holds (not (isOffered each)) ["P-39: type ", shown (kind it), " before the answer to an offered switch"]
    let more' = snd (parse 0 (payload it))
    when (kind it == trailers) (void (evaluate (length more')) >> atomically (writeTVar (requestTrailers_ each) more'))
    atomically $ do
      isDone <- readTVar (done each)
      when (kind it == data_ && not (B.null (payload it)) && not isDone) $ do
        isFree <- null <$> readTVar (input each)
        check isFree -- P-22: the reader waits until the handler has taken what came before
        writeTVar (input each) (Just (payload it))
      when (kind it /= data_ || isEnd it) (writeTVar (ended each) True)
      isOver <- readTVar (ended each)
      when (isDone && isOver) (modifyTVar' (open_ link) (M.delete (number each)))
    when (kind it == reset) (cancel (if B.length (payload it) < 2 then cancelled else fromIntegral (word16 0 (payload it))) each)

-- | The final frame, with what leaves before it; whether it was not sent before. The gateway may use the id again as
-- soon as it sees it (P-15).
final :: Exchange -> [B.ByteString] -> STM Bool
final exchange frames = do
  isDone <- swapTVar (done exchange) True
  isEnded <- readTVar (ended exchange)
  link <- readTVar (target_ exchange)
  unless isDone $ do
    writeTVar (input exchange) Nothing
    when isEnded $ modifyTVar' (open_ (source exchange)) (M.delete (number exchange))
    unless isEnded $ post (source exchange) (frame stop 0 (number exchange) []) -- P-21
    mapM_ (post link) frames
    when (linkKind link == Answer) $ do
      modifyTVar' (open_ link) (M.delete (number exchange))
      modifyTVar' (answers (service link)) (link :)
  pure (not isDone)

-- | The instance is to end: tells the handler of a connection that has switched, once (P-43).
farewell :: Exchange -> IO ()
farewell exchange = atomically (swapTVar (whenDraining exchange) Nothing) >>= mapM_ (forkIO . (`catch` failed))
  where
    failed error' = say (displayException (error' :: SomeException))

-- | P-17, P-24: more than one frame does not go on a shared connection, but on an answer connection, idle or new.
leaveShared :: Exchange -> IO Link
leaveShared exchange = do
  link <- readTVarIO (target_ exchange)
  if linkKind link /= Shared
    then pure link
    else mask_ $ do
      wanted <- readTVarIO (worker link)
      idle <- atomically $ do
        (fit, others) <- pick wanted =<< readTVar (answers (service link))
        fit <$ writeTVar (answers (service link)) others
      new <- maybe (dial (service link) Answer wanted) (pure . Just) idle
      answer <- maybe (throwIO (Reset internal 0 "no answer connection")) pure new
      atomically (writeTVar (target_ exchange) answer >> modifyTVar' (open_ answer) (M.insert (number exchange) exchange))
      pure answer
  where
    pick _ [] = pure (Nothing, [])
    pick wanted (each : others) = do
      isGone <- readTVar (isClosed each)
      its <- readTVar (worker each)
      case () of
        _
          | isGone -> pick wanted others
          | its == wanted -> pure (Just each, others)
          | otherwise -> fmap (each :) <$> pick wanted others
