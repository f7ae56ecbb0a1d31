{-# LANGUAGE OverloadedStrings #-}

-- | Users in SQLite: connections that read, two for each core, and one that writes.
module Store (Store, open, find, list, create, replace, remove) where

import Control.Concurrent (getNumCapabilities)
import Control.Concurrent.Chan (Chan, newChan, readChan, writeChan)
import Control.Concurrent.MVar (MVar, newMVar, withMVar)
import Control.Exception (bracket, finally)
import Control.Monad (forM_, replicateM_)
import Data.Int (Int64)
import Data.Text (Text)
import Database.Persist (PersistValue (..))
import Database.Sqlite (Connection, Statement, StepResult (..))
import qualified Database.Sqlite as Sqlite
import User (NewUser (..), User (User))

data Reader = Reader {oneUser :: Prepared, onePage :: Prepared}

data Writer = Writer {inserting :: Prepared, updating :: Prepared, deleting :: Prepared, changed :: IO Int64}

-- | A statement of a connection.
data Prepared = Prepared Connection Statement

-- | Readers are taken and given back.
data Store = Store (Chan Reader) (MVar Writer)

open :: Text -> IO Store
open path = do
  cores <- getNumCapabilities
  readers <- newChan
  replicateM_ (2 * cores) (connect path >>= reader >>= writeChan readers)
  connection <- connect path
  Store readers <$> (writer connection >>= newMVar)

connect :: Text -> IO Connection
connect path = do
  connection <- Sqlite.open path
  forM_ ["PRAGMA busy_timeout = 5000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"] $ \pragma -> do
    statement <- Sqlite.prepare connection pragma
    _ <- Sqlite.stepConn connection statement
    Sqlite.finalize statement
  pure connection

fields :: Text
fields = "id, name, email, bio, created_at"

reader :: Connection -> IO Reader
reader connection =
  Reader
    <$> prepare connection ("SELECT " <> fields <> " FROM users WHERE id = ?")
    <*> prepare connection ("SELECT " <> fields <> " FROM users ORDER BY id LIMIT ? OFFSET ?")

writer :: Connection -> IO Writer
writer connection =
  Writer
    <$> prepare connection ("INSERT INTO users (name, email, bio) VALUES (?, ?, ?) RETURNING " <> fields)
    <*> prepare connection ("UPDATE users SET name = ?, email = ?, bio = ? WHERE id = ? RETURNING " <> fields)
    <*> prepare connection "DELETE FROM users WHERE id = ?"
    <*> pure (Sqlite.changes connection)

prepare :: Connection -> Text -> IO Prepared
prepare connection text = Prepared connection <$> Sqlite.prepare connection text

find :: Store -> Int64 -> IO (Maybe User)
find store number = reading store $ \r -> first <$> rows (oneUser r) [PersistInt64 number]

list :: Store -> Int -> Int -> IO [User]
list store page limit = reading store $ \r -> rows (onePage r) [whole limit, whole ((page - 1) * limit)]
  where
    whole = PersistInt64 . fromIntegral

create :: Store -> NewUser -> IO (Maybe User)
create (Store _ w) new = withMVar w $ \held -> first <$> rows (inserting held) (values new)

replace :: Store -> Int64 -> NewUser -> IO (Maybe User)
replace (Store _ w) number new =
  withMVar w $ \held -> first <$> rows (updating held) (values new ++ [PersistInt64 number])

-- | Whether there was one.
remove :: Store -> Int64 -> IO Bool
remove (Store _ w) number = withMVar w $ \held -> rows (deleting held) [PersistInt64 number] >> (> 0) <$> changed held

values :: NewUser -> [PersistValue]
values new = [PersistText (newName new), PersistText (newEmail new), maybe PersistNull PersistText (newBio new)]

reading :: Store -> (Reader -> IO a) -> IO a
reading (Store readers _) = bracket (readChan readers) (writeChan readers)

first :: [a] -> Maybe a
first found = case found of
  one : _ -> Just one
  [] -> Nothing

-- | All of them: a statement that writes has ended only behind its last row.
rows :: Prepared -> [PersistValue] -> IO [User]
rows (Prepared connection statement) parameters = (Sqlite.bind statement parameters >> go []) `finally` end
  where
    end = Sqlite.reset connection statement
    go found = do
      result <- Sqlite.stepConn connection statement
      case result of
        Done -> pure (reverse found)
        Row -> do
          columns <- Sqlite.columns statement
          go (maybe found (: found) (user columns))

user :: [PersistValue] -> Maybe User
user columns = case columns of
  [PersistInt64 number, PersistText called, PersistText mail, about, created] ->
    Just (User number called mail (optional about) (optional created))
  _ -> Nothing
  where
    optional value = case value of
      PersistText found -> Just found
      _ -> Nothing
