{-# LANGUAGE OverloadedStrings #-}

-- | What is answered, by whatever server: cache-aside for one user, the database for everything else.
module Api (Api (..), Answer (..), one, page, create, replace, remove, missing, parameter, number) where

import qualified Cache
import Data.Aeson (eitherDecode')
import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder, toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Lazy.Char8 as LazyChar8
import Data.Int (Int64)
import Network.HTTP.Types
import qualified Store
import User (Json, Page (Page), User (userId))
import qualified User

data Api = Api {cache :: Cache.Cache, store :: Store.Store, json :: Json}

-- | Its length is said, or the server would send it in chunks.
data Answer = Answer Status ResponseHeaders Lazy.ByteString

defaultLimit, maxLimit :: Int
defaultLimit = 20
maxLimit = 100

one :: Api -> Int64 -> IO Answer
one api wanted = do
  cached <- Cache.get (cache api) (key wanted)
  case cached of
    Just found -> pure (answer ok200 [] (Lazy.fromStrict found))
    Nothing -> Store.find (store api) wanted >>= maybe (pure missing) kept
  where
    kept user = do
      let bytes = Lazy.toStrict (toLazyByteString (User.one (json api) user))
      Cache.put (cache api) (key wanted) bytes
      pure (answer ok200 [] (Lazy.fromStrict bytes))

page :: Api -> Maybe ByteString -> Maybe ByteString -> IO Answer
page api asked most = do
  let (at, limit) = (parameter 1 asked, min maxLimit (parameter defaultLimit most))
  found <- Store.list (store api) at limit
  pure (written ok200 [] (User.many (json api) (Page at limit found)))

create :: Api -> Lazy.ByteString -> IO Answer
create api body = case eitherDecode' body of
  Left why -> pure (wrong why)
  Right new -> Store.create (store api) new >>= maybe (pure missing) created
  where
    created user = do
      Cache.forget (cache api) (key (userId user))
      let location = "/users/" <> Char8.pack (show (userId user))
      pure (written created201 [(hLocation, location)] (User.one (json api) user))

replace :: Api -> Int64 -> Lazy.ByteString -> IO Answer
replace api wanted body = case eitherDecode' body of
  Left why -> pure (wrong why)
  Right new -> Store.replace (store api) wanted new >>= maybe (pure missing) replaced
  where
    replaced user = do
      Cache.forget (cache api) (key wanted)
      pure (written ok200 [] (User.one (json api) user))

remove :: Api -> Int64 -> IO Answer
remove api wanted = do
  was <- Store.remove (store api) wanted
  if was then Answer noContent204 [] mempty <$ Cache.forget (cache api) (key wanted) else pure missing

missing :: Answer
missing = answer notFound404 [] "{\"error\":\"User not found\"}"

wrong :: String -> Answer
wrong why = Answer badRequest400 [(hContentType, "text/plain")] (LazyChar8.pack why)

written :: Status -> ResponseHeaders -> Builder -> Answer
written status fields = answer status fields . toLazyByteString

answer :: Status -> ResponseHeaders -> Lazy.ByteString -> Answer
answer status fields body = Answer status (json' : length' : fields) body
  where
    json' = (hContentType, "application/json")
    length' = (hContentLength, Char8.pack (show (Lazy.length body)))

key :: Int64 -> ByteString
key wanted = "user:" <> Char8.pack (show wanted)

parameter :: Int -> Maybe ByteString -> Int
parameter otherwise' = maybe otherwise' (max 1 . fromIntegral) . (>>= number)

number :: ByteString -> Maybe Int64
number text = case Char8.readInteger text of
  Just (found, "") | found > 0 && found <= fromIntegral (maxBound :: Int64) -> Just (fromIntegral found)
  _ -> Nothing
