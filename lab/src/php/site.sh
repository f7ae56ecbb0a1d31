#!/bin/sh
# Makes in this folder a site of WordPress as Debian packages it, a script beside it that says one word, and a pool of
# php-fpm; then it becomes the site's database.
set -eu
# Some of Debian's links lead to what other packages would bring.
cp -rL /usr/share/wordpress site 2>/dev/null || test -e site/wp-login.php
printf "<?php echo 'word';" >site/word.php
# The address of the request is the site's, so that one database serves all web servers.
cat >site/wp-config.php <<END
<?php
define('WP_HOME', 'http://' . \$_SERVER['HTTP_HOST']); define('WP_SITEURL', WP_HOME);
define('DB_NAME', 'wordpress'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:$PWD/db.sock'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b'); define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
\$table_prefix = 'wp_';
if (!defined('ABSPATH')) { define('ABSPATH', __DIR__ . '/'); }
require_once ABSPATH . 'wp-settings.php';
END
chown -R www-data site
cat >fpm.conf <<'END'
[global]
daemonize = no
error_log = /dev/null
[www]
user = www-data
group = www-data
listen = ${PILOTLIGHT_LISTEN}
listen.mode = 0666
pm = static
pm.max_children = 3
clear_env = no
END
mariadb-install-db --no-defaults --datadir="$PWD/db" --user=root --auth-root-authentication-method=normal
exec mariadbd --no-defaults --datadir="$PWD/db" --socket="$PWD/db.sock" --skip-networking --user=root
