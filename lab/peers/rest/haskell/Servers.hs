{-# LANGUAGE OverloadedStrings #-}

-- | The routes, on Warp alone and on Scotty.
module Servers (onWarp, onScotty) where

import Api
import Control.Monad.IO.Class (liftIO)
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Text.Encoding (encodeUtf8)
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Lazy as LazyText
import qualified Data.Text.Lazy.Encoding as LazyText
import qualified Data.CaseInsensitive as CaseInsensitive
import Network.HTTP.Types (methodNotAllowed405)
import Network.Wai
import Web.Scotty (ActionM, ScottyM)
import qualified Web.Scotty as Scotty

onWarp :: Api -> Application
onWarp api request respond = route >>= respond . response
  where
    route = case (pathInfo request, requestMethod request) of
      (["users"], "GET") -> page api (asked "page") (asked "limit")
      (["users"], "POST") -> strictRequestBody request >>= create api
      (["users", text], method) -> maybe (pure missing) (onUser method) (number (encodeUtf8 text))
      (["users"], _) -> pure notAllowed
      _ -> pure missing
    onUser :: ByteString -> Int64 -> IO Answer
    onUser method wanted = case method of
      "GET" -> one api wanted
      "PUT" -> strictRequestBody request >>= replace api wanted
      "DELETE" -> remove api wanted
      _ -> pure notAllowed
    asked name = maybe Nothing id (lookup name (queryString request))
    response (Answer status fields body) = responseLBS status fields body

notAllowed :: Answer
notAllowed = Answer methodNotAllowed405 [] mempty

onScotty :: Api -> ScottyM ()
onScotty api = do
  Scotty.get "/users/:id" (withId (one api))
  Scotty.get "/users" $ do
    at <- asked "page"
    limit <- asked "limit"
    answered (page api at limit)
  Scotty.post "/users" (Scotty.body >>= answered . create api)
  Scotty.put "/users/:id" (Scotty.body >>= \body -> withId (\wanted -> replace api wanted body))
  Scotty.delete "/users/:id" (withId (remove api))
  where
    asked :: LazyText.Text -> ActionM (Maybe ByteString)
    asked name = do
      all' <- Scotty.params
      pure (encodeUtf8 . LazyText.toStrict <$> lookup name all')
    withId :: (Int64 -> IO Answer) -> ActionM ()
    withId act = do
      text <- Scotty.param "id"
      answered (maybe (pure missing) act (number (encodeUtf8 (LazyText.toStrict text))))

answered :: IO Answer -> ActionM ()
answered act = do
  Answer status fields body <- liftIO act
  Scotty.status status
  mapM_ (\(name, value) -> Scotty.setHeader (LazyText.fromStrict (Text.decodeUtf8 (CaseInsensitive.original name))) (LazyText.decodeUtf8 (lazy value))) fields
  Scotty.raw body
  where
    lazy = LazyText.encodeUtf8 . LazyText.fromStrict . Text.decodeUtf8
