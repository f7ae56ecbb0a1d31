'use strict'
// The REST benchmark service: fastify + ioredis (autopipelining) + better-sqlite3. One process, or WORKERS=n.
// env: PORT, SQLITE_DB, REDIS_PORT, REDIS_CLUSTER (1: a cluster)
const cluster = require('node:cluster')
const N = +(process.env.WORKERS || 1)
if (N > 1 && cluster.isPrimary) { for (let i = 0; i < N; i++) cluster.fork() } else main()
function main () {
  const Redis = require('ioredis')
  const db = require('better-sqlite3')(process.env.SQLITE_DB)
  db.pragma('busy_timeout=5000'); db.pragma('journal_mode=WAL'); db.pragma('synchronous=FULL')
  const node = { host: '127.0.0.1', port: +(process.env.REDIS_PORT || 6379) }
  const redis = process.env.REDIS_CLUSTER === '1'
    ? new Redis.Cluster([node], { enableAutoPipelining: true })
    : new Redis({ ...node, enableAutoPipelining: true })
  const cols = 'id,name,email,bio,created_at AS createdAt'
  const one = db.prepare(`SELECT ${cols} FROM users WHERE id=?`)
  const list = db.prepare(`SELECT ${cols} FROM users ORDER BY id LIMIT ? OFFSET ?`)
  const ins = db.prepare(`INSERT INTO users(name,email,bio) VALUES (?,?,?) RETURNING ${cols}`)
  const upd = db.prepare(`UPDATE users SET name=?,email=?,bio=? WHERE id=? RETURNING ${cols}`)
  const del = db.prepare('DELETE FROM users WHERE id=?')
  const app = require('fastify')({ logger: false })
  const J = 'application/json'
  const nf = r => r.code(404).type(J).send('{"error":"User not found"}')
  app.get('/users/:id', async (q, r) => {
    const key = 'user:' + q.params.id
    const b = await redis.getBuffer(key)
    if (b) return r.type(J).send(b)
    const u = one.get(+q.params.id)
    if (!u) return nf(r)
    const s = JSON.stringify(u)
    await redis.psetex(key, 60000, s)
    return r.type(J).send(s)
  })
  app.get('/users', async (q, r) => {
    const page = +(q.query.page || 1), limit = Math.min(+(q.query.limit || 20), 100)
    return r.type(J).send(JSON.stringify({ page, limit, data: list.all(limit, (page - 1) * limit) }))
  })
  app.post('/users', async (q, r) => {
    const u = ins.get(q.body.name, q.body.email, q.body.bio ?? null)
    await redis.del('user:' + u.id)
    return r.code(201).header('location', '/users/' + u.id).type(J).send(JSON.stringify(u))
  })
  app.put('/users/:id', async (q, r) => {
    const u = upd.get(q.body.name, q.body.email, q.body.bio ?? null, +q.params.id)
    if (!u) return nf(r)
    await redis.del('user:' + q.params.id)
    return r.type(J).send(JSON.stringify(u))
  })
  app.delete('/users/:id', async (q, r) => {
    if (!del.run(+q.params.id).changes) return nf(r)
    await redis.del('user:' + q.params.id)
    return r.type(J).send('{"message":"User deleted"}')
  })
  app.listen({ port: +(process.env.PORT || 8320), host: '127.0.0.1' })
}
