{-# LANGUAGE OverloadedStrings #-}

-- | A user, and its JSON written in three ways.
module User (User (..), NewUser (..), Page (..), Json (..), byEncoding, byValue, byHand) where

import Data.Aeson
import qualified Data.Aeson.Encoding as Encoding
import Data.ByteString.Builder (Builder, char7, charUtf8, int64Dec, intDec, string7, word16HexFixed)
import Data.Char (ord)
import Data.Int (Int64)
import Data.List (intersperse)
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Text.Encoding (encodeUtf8Builder)

data User = User
  { userId :: !Int64,
    name :: !Text,
    email :: !Text,
    bio :: !(Maybe Text),
    createdAt :: !(Maybe Text)
  }

data Page = Page {number :: !Int, size :: !Int, users :: [User]}

data NewUser = NewUser {newName :: !Text, newEmail :: !Text, newBio :: !(Maybe Text)}

instance FromJSON NewUser where
  parseJSON = withObject "a user" $ \o -> NewUser <$> o .: "name" <*> o .: "email" <*> o .:? "bio"

instance ToJSON User where
  toJSON user =
    object
      [ "id" .= userId user,
        "name" .= name user,
        "email" .= email user,
        "bio" .= bio user,
        "createdAt" .= createdAt user
      ]
  toEncoding user =
    pairs $
      "id" .= userId user
        <> "name" .= name user
        <> "email" .= email user
        <> "bio" .= bio user
        <> "createdAt" .= createdAt user

instance ToJSON Page where
  toJSON page = object ["page" .= number page, "limit" .= size page, "data" .= users page]
  toEncoding page = pairs $ "page" .= number page <> "limit" .= size page <> "data" .= users page

-- | How answers are written.
data Json = Json {one :: User -> Builder, many :: Page -> Builder}

-- | By aeson, as its documentation advises: straight into a builder.
byEncoding :: Json
byEncoding = Json encoding encoding

-- | By aeson, through a value of every field: what an instance without 'toEncoding' does.
byValue :: Json
byValue = Json (Encoding.fromEncoding . Encoding.value . toJSON) (Encoding.fromEncoding . Encoding.value . toJSON)

encoding :: ToJSON a => a -> Builder
encoding = Encoding.fromEncoding . toEncoding

-- | By hand.
byHand :: Json
byHand = Json user page
  where
    user u =
      string7 "{\"id\":" <> int64Dec (userId u)
        <> string7 ",\"name\":" <> text (name u)
        <> string7 ",\"email\":" <> text (email u)
        <> string7 ",\"bio\":" <> maybe (string7 "null") text (bio u)
        <> string7 ",\"createdAt\":" <> maybe (string7 "null") text (createdAt u)
        <> char7 '}'
    page p =
      string7 "{\"page\":" <> intDec (number p)
        <> string7 ",\"limit\":" <> intDec (size p)
        <> string7 ",\"data\":[" <> mconcat (intersperse (char7 ',') (map user (users p)))
        <> string7 "]}"

text :: Text -> Builder
text value = char7 '"' <> inside <> char7 '"'
  where
    inside
      | Text.any isSpecial value = Text.foldr (\c rest -> character c <> rest) mempty value
      | otherwise = encodeUtf8Builder value

isSpecial :: Char -> Bool
isSpecial c = c == '"' || c == '\\' || c < ' '

character :: Char -> Builder
character c
  | c == '"' || c == '\\' = char7 '\\' <> char7 c
  | c < ' ' = string7 "\\u" <> word16HexFixed (fromIntegral (ord c))
  | otherwise = charUtf8 c
