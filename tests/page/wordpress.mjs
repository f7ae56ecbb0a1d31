// WordPress as Debian packages it, with MariaDB, behind a gateway: the configuration of docs/guide/php.md.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { start } from './gateway.mjs';

const SOURCE = '/usr/share/wordpress';
/** Who runs PHP, if that can be somebody else. */
const USER = process.getuid() === 0 ? 'www-data' : undefined;
/** Milliseconds for the database to answer. */
const LIMIT = 60_000;

/** What stays out of a test: no servers of WordPress.org are asked, and nothing updates itself. */
const PREPENDED = `<?php
define('WP_HTTP_BLOCK_EXTERNAL', true); define('AUTOMATIC_UPDATER_DISABLED', true); define('DISABLE_WP_CRON', true);
`;

const fpm = (prepended) => `[global]
daemonize = no
error_log = /dev/null
[blog]
listen = \${PILOTLIGHT_LISTEN}
pm = static
pm.max_children = 4
clear_env = no
php_admin_value[auto_prepend_file] = ${prepended}
php_admin_value[display_errors] = stderr
`;

function phpFpm() {
  const name = readdirSync('/usr/sbin').find((file) => file.startsWith('php-fpm'));
  assert.ok(name, 'php-fpm is not installed: `make test-all` installs it');
  return join('/usr/sbin', name);
}

/** A server of MariaDB in a folder, reached by its socket, with an empty database and a user for it. */
async function database(folder) {
  const [data, socket] = [join(folder, 'db'), join(folder, 'db.sock')];
  const options = ['--no-defaults', ...(USER ? ['--user=root'] : [])];
  const install = [...options, `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db'];
  execFileSync('mariadb-install-db', install, { stdio: 'ignore', timeout: LIMIT });
  const path = `${process.env.PATH}:/usr/sbin`;
  const server = spawn('mariadbd', [...options, `--datadir=${data}`, `--socket=${socket}`, '--skip-networking'], {
    stdio: 'ignore',
    env: { ...process.env, PATH: path },
  });
  const ended = new Promise((resolve) => { server.on('exit', resolve); });
  const commands = "CREATE DATABASE blog; CREATE USER wp@localhost IDENTIFIED BY 'secret'; GRANT ALL ON blog.* TO wp@localhost;";
  const ask = ['--no-defaults', '-uroot', `--socket=${socket}`, '-e', commands];
  for (const until = Date.now() + LIMIT; ;) {
    try {
      execFileSync('mariadb', ask, { stdio: 'pipe' });
      break;
    } catch (error) {
      assert.ok(Date.now() < until && server.exitCode === null, `MariaDB answers: ${error.stderr}`);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  }
  chmodSync(socket, 0o777);
  const stop = async () => {
    server.kill('SIGTERM');
    await ended;
  };
  return { socket, stop };
}

/** A gateway with a WordPress that nobody has installed yet. */
export async function wordpress() {
  const folder = mkdtempSync(join(tmpdir(), 'pilotlight-wordpress-'));
  chmodSync(folder, 0o755);
  const site = join(folder, 'site');
  // Many files of Debian's package are links to other packages, which are outside of the site's folder.
  cpSync(SOURCE, site, { recursive: true, dereference: true });
  rmSync(join(site, 'wp-config.php'));
  mkdirSync(join(site, 'wp-content', 'uploads'), { recursive: true });
  if (USER) execFileSync('chown', ['-R', USER, site]);
  const prepended = join(folder, 'prepended.php');
  writeFileSync(prepended, PREPENDED);
  writeFileSync(join(folder, 'fpm.conf'), fpm(prepended));
  const { socket, stop: stopDatabase } = await database(folder);
  const lines = [
    '[services.blog]',
    `command = ${JSON.stringify([phpFpm(), '-F', '-O', '-y', join(folder, 'fpm.conf')])}`,
    'transport = "fastcgi"',
    ...(USER ? [`user = "${USER}"`] : []),
    `dir = ${JSON.stringify(site)}`,
    'cgi = { root = ".", fallback = "index.php", run = ["index.php", "wp-*.php", "wp-admin/", "wp-includes/"] }',
    '[[routes]]',
    'path = "/"',
    'service = "blog"',
  ];
  const gateway = await start(lines);
  const stop = async () => {
    await gateway.stop();
    await stopDatabase();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: gateway.url, site, socket, stop };
}
