"""A site of WordPress as Debian packages it, with MariaDB of its own, in a folder: for tests, and for the lab."""

import shutil
import subprocess
from pathlib import Path

from harness import eventually
from programs import find

SOURCE = Path("/usr/share/wordpress")
MARIADB = find("mariadbd")
INSTALL_DB = find("mariadb-install-db")
IS_INSTALLED = bool(SOURCE.exists() and INSTALL_DB and MARIADB)
FORM = [("Content-Type", "application/x-www-form-urlencoded")]
# What the installer asks for.
ANSWERS = {
    "weblog_title": "Pilot site",
    "user_name": "ada",
    "admin_email": "a@b.test",
    "admin_password": "long-enough-1",
    "admin_password2": "long-enough-1",
    "pw_weak": "1",
    "language": "",
}
CGI = '''[services.wp.cgi]
root = "."
fallback = "index.php"
run = ["index.php", "wp-*.php", "wp-admin/", "wp-includes/"]
'''
CONFIG = """<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:%s'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b'); define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) { define('ABSPATH', __DIR__ . '/'); }
require_once ABSPATH . 'wp-settings.php';
"""


class Site:
    """The folder with its files, and the database, which runs until `stop`."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.chmod(0o755)
        self.files = self.folder / "site"
        # Debian's has links to what other packages bring.
        shutil.copytree(SOURCE, self.files, symlinks=False, ignore_dangling_symlinks=True)
        (self.files / "wp-config.php").unlink(missing_ok=True)
        self.socket = self.folder / "db.sock"
        self.database = None
        (self.files / "wp-config.php").write_text(CONFIG % self.socket)

    def start(self):
        """Makes the database and waits until it answers."""
        data, user = self.folder / "db", "--user=root"
        subprocess.run(
            [INSTALL_DB, "--no-defaults", f"--datadir={data}", user, "--auth-root-authentication-method=normal"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        self.database = subprocess.Popen(
            [MARIADB, "--no-defaults", f"--datadir={data}", f"--socket={self.socket}", "--skip-networking", user],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ask = ["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}", "-e", "CREATE DATABASE wordpress"]
        if not eventually(lambda: subprocess.run(ask, capture_output=True).returncode == 0, 60):
            raise TimeoutError("MariaDB does not answer")
        self.socket.chmod(0o777)
        return self

    def stop(self):
        if self.database:
            self.database.terminate()
            self.database.wait(60)
