// ioredis through a tunnel: arguments are the mode, and the host:port of the tunnel. Prints READY, works until a line comes in, then says what it saw.
'use strict';
const assert = require('node:assert/strict');
const Redis = require('ioredis');

const [mode, address] = process.argv.slice(2);
const [host, port] = [address.slice(0, address.lastIndexOf(':')), Number(address.slice(address.lastIndexOf(':') + 1))];
const connect = () => mode === 'pinned'
  ? new Redis.Cluster([{ host, port }])
  : new Redis({ host, port, password: 'of another server', maxRetriesPerRequest: 100 });

async function features() {
  const client = connect();
  const other = connect();
  const big = Buffer.alloc(10 * 1024 * 1024, 'pilotlight');
  await client.set('io:big', big);
  assert.ok(big.equals(await client.getBuffer('io:big')));
  await client.hset('io:h', { a: 1, b: 2 });
  assert.deepEqual(await client.hgetall('io:h'), { a: '1', b: '2' });
  assert.deepEqual(
    await client.multi().set('{io}n', 1).incr('{io}n').get('{io}n').exec(),
    [[null, 'OK'], [null, 2], [null, '2']],
  );
  if (mode === 'smart') {
    const names = Array.from({ length: 50 }, (_, n) => `io:${n}`);
    await client.mset(...names.flatMap((name) => [name, name]));
    assert.deepEqual(await client.mget(...names), names);
    const found = new Set();
    for await (const page of client.scanStream({ match: 'io:[0-9]*', count: 5 })) page.forEach((key) => found.add(key));
    assert.equal(found.size, 50);
    await client.watch('{io}n');
    await other.set('{io}n', 7);
    assert.equal(await client.multi().incr('{io}n').exec(), null);
    const many = await Promise.all(Array.from({ length: 5000 }, (_, n) => client.incrby('io:many', n)));
    assert.ok(many.every((value, n) => n === 0 || value > many[n - 1]), 'in order');
  }
  await client.del('{io}q');
  setTimeout(() => other.rpush('{io}q', 'late'), 200);
  assert.deepEqual(await client.blpop('{io}q', 10), ['{io}q', 'late']);
  const subscriber = connect();
  const message = new Promise((resolve) => subscriber.on('message', (channel, text) => resolve([channel, text])));
  await subscriber.subscribe('io:news');
  await other.publish('io:news', 'hello');
  assert.deepEqual(await message, ['io:news', 'hello']);
  for (const it of [client, other, subscriber]) it.disconnect();
}

async function main() {
  await features();
  const client = connect();
  let isOver = false;
  const count = async (key) => {
    let [done, maybe] = [0, 0];
    while (!isOver) {
      try {
        await client.incr(key);
        done += 1;
      } catch {
        maybe += 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    return [key, done, maybe];
  };
  const keys = Array.from({ length: 8 }, (_, n) => `io:count:${n}`);
  for (const key of keys) await client.set(key, 0);
  const counting = keys.map(count);
  console.log('READY');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  isOver = true;
  for (const [key, done, maybe] of await Promise.all(counting)) {
    const now = Number(await client.get(key));
    // What was in flight when a connection was lost is sent again by ioredis.
    assert.ok(done > 0 && done <= now && now <= done + maybe + 100, `${key}: ${done} done, ${maybe} in doubt, ${now} counted`);
  }
  console.log('DONE');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
