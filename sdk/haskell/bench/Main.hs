{-# LANGUAGE OverloadedStrings #-}

-- | What sdk/conformance/cpu.py measures: 200 bytes of JSON, on the pipe or by Warp on the inherited socket.
module Main (main) where

import qualified Data.ByteString.Lazy.Char8 as L
import Network.HTTP.Types (status200)
import Network.Socket (mkSocket, setNonBlockIfNeeded)
import Network.Wai (Application, responseLBS)
import Network.Wai.Handler.Warp (defaultSettings, runSettingsSocket)
import Pilotlight (runPilotlight)
import System.Environment (lookupEnv)

main :: IO ()
main = lookupEnv "PILOTLIGHT_SOCKET" >>= maybe (setNonBlockIfNeeded 3 >> mkSocket 3 >>= \sock -> runSettingsSocket defaultSettings sock app) (const (runPilotlight app))

app :: Application
app _ respond = respond (responseLBS status200 [("content-type", "application/json"), ("content-length", "200")] body)

body :: L.ByteString
body = "{\"id\":42,\"pad\":\"" <> L.replicate 182 'x' <> "\"}"
