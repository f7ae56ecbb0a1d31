"""examples/users where nothing can be written: one line says what is wrong, where, and what to do."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from users_service import USERS, Users

LIMIT = 60.0


class ReadOnlyTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="users-ro-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, db, words, before=()):
        command = [*before, str(USERS), "--db", str(db), "--listen", "127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in [f"cannot open the database {db}", *words, "--db"]:
            self.assertEqual(done.stderr.count(word), 1, (word, done.stderr))

    def test_a_read_only_file_system(self):
        room = self.folder / "room"
        room.mkdir()
        # A file system that only this test sees: an old database on it, and then no more writing.
        script = (
            f'mount -t tmpfs none "{room}" && cp "{self.folder}/old.db" "{room}/" && mkdir "{room}/data" && '
            f'mount -o remount,ro "{room}" && exec "$@"'
        )
        before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
        if subprocess.run([*before[:4], "true"], capture_output=True).returncode:
            self.skipTest("not here: this system makes no user namespaces, so no file system can be made read-only")
        service = Users(self.folder / "old.db").start()
        service.stop()
        for db in ["old.db", "new.db", "data/new.db", "missing/new.db"]:
            with self.subTest(db):
                self.check(room / db, ["the file system is read-only", "mount it writable"], before)

    def test_a_folder_without_permission(self):
        before = ()
        if os.geteuid() == 0:
            before = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        self.folder.chmod(0o755)
        locked = self.folder / "locked"
        locked.mkdir(mode=0o555)
        for db in ["new.db", "missing/new.db"]:
            with self.subTest(db):
                self.check(locked / db, ["may not write there", "owner or mode"], before)
        self.assertEqual(list(locked.iterdir()), [])
        locked.chmod(0o755)

    def test_the_look_leaves_nothing_behind(self):
        db = self.folder / "folder.db"
        db.mkdir()
        done = subprocess.run([USERS, "--db", db, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([it.name for it in self.folder.iterdir()], ["folder.db"])


if __name__ == "__main__":
    unittest.main()
