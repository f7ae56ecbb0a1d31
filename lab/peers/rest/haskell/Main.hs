{-# LANGUAGE OverloadedStrings #-}

-- | The users service on Warp, hedis and SQLite.
-- Environment: PORT (0: any), SQLITE_DB, REDIS_PORT, REDIS_CLUSTER (1: a cluster), HTTP (warp, scotty), JSON (encoding,
-- value, builder).
module Main (main) where

import Api (Api (..))
import qualified Cache
import Data.Maybe (fromMaybe)
import qualified Data.Text as Text
import Network.Socket
import Network.Wai.Handler.Warp (defaultSettings, runSettingsSocket)
import Servers (onScotty, onWarp)
import qualified Store
import System.Environment (lookupEnv)
import System.IO (BufferMode (LineBuffering), hSetBuffering, stdout)
import User (Json, byEncoding, byHand, byValue)
import Web.Scotty (scottyApp)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  port <- setting "PORT" "8330"
  json' <- setting "JSON" "encoding" >>= encoder
  store' <- setting "SQLITE_DB" "users.db" >>= Store.open . Text.pack
  isCluster <- (== "1") <$> setting "REDIS_CLUSTER" "0"
  cache' <- setting "REDIS_PORT" "6379" >>= Cache.connectTo isCluster . read
  let api = Api cache' store' json'
  server <- setting "HTTP" "warp"
  application <- case server of
    "warp" -> pure (onWarp api)
    "scotty" -> scottyApp (onScotty api)
    _ -> fail ("HTTP is warp or scotty, not " <> server)
  listening <- listenOn (read port)
  address <- getSocketName listening
  putStrLn ("listening on http://" <> show address)
  runSettingsSocket defaultSettings listening application

encoder :: String -> IO Json
encoder name = case name of
  "encoding" -> pure byEncoding
  "value" -> pure byValue
  "builder" -> pure byHand
  _ -> fail ("JSON is encoding, value or builder, not " <> name)

setting :: String -> String -> IO String
setting name otherwise' = fromMaybe otherwise' <$> lookupEnv name

listenOn :: PortNumber -> IO Socket
listenOn port = do
  listening <- socket AF_INET Stream defaultProtocol
  setSocketOption listening ReuseAddr 1
  withFdSocket listening setCloseOnExecIfNeeded
  bind listening (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))
  listen listening 1024
  pure listening
