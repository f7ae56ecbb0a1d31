{-# LANGUAGE OverloadedStrings #-}

-- | Users in Redis by hedis: its pool of connections, or one for each primary of a cluster. hedis's own client of
-- clusters cannot read what Redis 7 and later answer to COMMAND, so a key's primary is looked up here.
module Cache (Cache, connectTo, get, put, forget) where

import Control.Monad (void)
import Data.Array (Array, listArray, (!))
import Data.Bits (shiftL, shiftR, xor, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Char8 as Char8
import qualified Data.Map.Strict as Map
import Data.Word (Word16, Word8)
import Database.Redis (ConnectInfo (..), Connection, PortID (PortNumber), Redis, Reply (..))
import qualified Database.Redis as Redis

-- | The connection of a key.
newtype Cache = Cache (ByteString -> Connection)

ttlMs :: Integer
ttlMs = 60000

-- | A server, or the cluster that it belongs to.
connectTo :: Bool -> Int -> IO Cache
connectTo isCluster port = do
  seed <- node port
  if isCluster then Cache <$> cluster seed else pure (Cache (const seed))

node :: Int -> IO Connection
node port = Redis.connect Redis.defaultConnectInfo {connectHost = "127.0.0.1", connectPort = PortNumber (fromIntegral port)}

cluster :: Connection -> IO (ByteString -> Connection)
cluster seed = do
  ranges <- Redis.runRedis seed (Redis.sendRequest ["CLUSTER", "SLOTS"]) >>= either (fail . show) (pure . slots)
  let ports = Map.fromList [(port, ()) | (_, _, port) <- ranges]
  connections <- Map.traverseWithKey (\port () -> node port) ports
  let owners = Map.fromList [(to, connections Map.! port) | (_, to, port) <- ranges]
      table = listArray (0, slotCount - 1) [snd (nextUp slot owners) | slot <- [0 .. slotCount - 1]]
  pure (\key -> (table :: Array Int Connection) ! slotOf key)
  where
    nextUp slot = maybe (error "a slot that nobody serves") id . Map.lookupGE slot

slots :: Reply -> [(Int, Int, Int)]
slots reply = case reply of
  MultiBulk (Just found) ->
    [ (fromIntegral from, fromIntegral to, fromIntegral port)
      | MultiBulk (Just (Integer from : Integer to : MultiBulk (Just (_ : Integer port : _)) : _)) <- found
    ]
  _ -> []

get :: Cache -> ByteString -> IO (Maybe ByteString)
get cache key = run cache key (Redis.get key) >>= right

put :: Cache -> ByteString -> ByteString -> IO ()
put cache key value = run cache key (Redis.psetex key ttlMs value) >>= void . right

forget :: Cache -> ByteString -> IO ()
forget cache key = run cache key (Redis.del [key]) >>= void . right

run :: Cache -> ByteString -> Redis a -> IO a
run (Cache connection) key = Redis.runRedis (connection key)

right :: Either Reply a -> IO a
right = either (fail . Char8.unpack . said) pure
  where
    said reply = case reply of
      Error text -> text
      _ -> "an answer that was not expected"

slotCount :: Int
slotCount = 16384

-- | CRC-16/XMODEM of a key without a hash tag.
slotOf :: ByteString -> Int
slotOf key = fromIntegral (Bytes.foldl' step 0 key) `mod` slotCount
  where
    step :: Word16 -> Word8 -> Word16
    step crc byte = (crc `shiftL` 8) `xor` (crcTable ! (fromIntegral (crc `shiftR` 8) `xor` fromIntegral byte))

crcTable :: Array Int Word16
crcTable = listArray (0, 255) [iterate bit (byte `shiftL` 8) !! 8 | byte <- [0 .. 255]]
  where
    bit crc = if crc .&. 0x8000 == 0 then crc `shiftL` 1 else (crc `shiftL` 1) `xor` 0x1021
