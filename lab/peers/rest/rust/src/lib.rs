//! The REST benchmark service in Rust: axum 0.8 + rusqlite, with a client of Redis that the binary chooses. env: PORT,
//! SQLITE_DB, REDIS_PORT, REDIS_CLUSTER (1: a cluster), THREADS (tokio workers), WRITER=pool|single|group|linger pool =
//! every write is its own IMMEDIATE transaction on a pooled connection (blocking pool) single = one writer thread, one
//! transaction per write (writers queue in memory, not in SQLite's busy handler) group = one writer thread; takes
//! everything waiting (<= 512) into ONE transaction, answers after COMMIT linger = group, and before BEGIN waits up to
//! 1/8 of the last commit time (max 1 ms) while writes keep arriving
use axum::{
    extract::{Path, Query, State},
    http::{header, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
    Json, Router,
};
use bytes::Bytes;
use rusqlite::{params, Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::oneshot;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User {
    id: i64,
    name: String,
    email: String,
    bio: Option<String>,
    created_at: String,
}
#[derive(Serialize)]
struct Page {
    page: i64,
    limit: i64,
    data: Vec<User>,
}
#[derive(Deserialize)]
struct Input {
    name: String,
    email: String,
    bio: Option<String>,
}
#[derive(Deserialize)]
struct PageQ {
    page: Option<i64>,
    limit: Option<i64>,
}
enum Op {
    Insert(Input),
    Update(i64, Input),
    Delete(i64),
}
enum Out {
    User(User),
    Deleted,
    None,
    Err(String),
}

fn row(r: &Row) -> rusqlite::Result<User> {
    Ok(User { id: r.get(0)?, name: r.get(1)?, email: r.get(2)?, bio: r.get(3)?, created_at: r.get(4)? })
}
fn open(db: &str) -> Connection {
    let c = Connection::open(db).unwrap();
    c.pragma_update(None, "busy_timeout", 5000).unwrap();
    c.pragma_update(None, "journal_mode", "WAL").unwrap();
    c.pragma_update(None, "synchronous", "FULL").unwrap();
    c
}
fn apply(c: &Connection, op: &Op) -> Out {
    let r: rusqlite::Result<Out> = (|| {
        Ok(match op {
            Op::Insert(i) => Out::User(
                c.prepare_cached(
                    "INSERT INTO users(name,email,bio) VALUES (?,?,?) RETURNING id,name,email,bio,created_at",
                )?
                .query_row(params![i.name, i.email, i.bio], row)?,
            ),
            Op::Update(id, i) => match c
                .prepare_cached(
                    "UPDATE users SET name=?2,email=?3,bio=?4 WHERE id=?1 RETURNING id,name,email,bio,created_at",
                )?
                .query_row(params![id, i.name, i.email, i.bio], row)
                .optional()?
            {
                Some(u) => Out::User(u),
                None => Out::None,
            },
            Op::Delete(id) => {
                if c.prepare_cached("DELETE FROM users WHERE id=?")?.execute([id])? == 0 {
                    Out::None
                } else {
                    Out::Deleted
                }
            }
        })
    })();
    r.unwrap_or_else(|e| Out::Err(e.to_string()))
}

type Job = (Op, oneshot::Sender<Out>);
enum Writer {
    Pool,
    Group(crossbeam_channel::Sender<Job>),
}
struct Pool {
    free: (crossbeam_channel::Sender<Connection>, crossbeam_channel::Receiver<Connection>),
}
impl Pool {
    async fn run<T: Send + 'static>(self: &Arc<Self>, f: impl FnOnce(&Connection) -> T + Send + 'static) -> T {
        let p = self.clone();
        tokio::task::spawn_blocking(move || {
            let c = p.free.1.recv().unwrap();
            let r = f(&c);
            p.free.0.send(c).unwrap();
            r
        })
        .await
        .unwrap()
    }
}
struct App<K> {
    redis: K,
    pool: Arc<Pool>,
    writer: Writer,
}
type S<K> = State<Arc<App<K>>>;

/// A client of Redis, as much of it as is needed. Errors are misses.
pub trait Keys: Clone + Send + Sync + 'static {
    fn get(&self, key: &str) -> impl Future<Output = Option<Bytes>> + Send;
    fn set(&self, key: &str, value: Bytes, ms: u64) -> impl Future<Output = ()> + Send;
    fn del(&self, key: String) -> impl Future<Output = ()> + Send;
}

fn writer_thread(db: String, rx: crossbeam_channel::Receiver<Job>, max: usize, linger: bool) {
    let c = open(&db);
    let mut last = std::time::Duration::ZERO;
    loop {
        let Ok(first) = rx.recv() else { return };
        let mut batch = vec![first];
        let until = std::time::Instant::now() + (last / 8).min(std::time::Duration::from_millis(1));
        while batch.len() < max {
            match if linger { rx.recv_deadline(until).ok() } else { rx.try_recv().ok() } {
                Some(j) => batch.push(j),
                None => break,
            }
        }
        let t = std::time::Instant::now();
        c.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut outs = Vec::with_capacity(batch.len());
        for (op, _) in &batch {
            outs.push(apply(&c, op)); // a failed single statement (UNIQUE) only undoes itself
        }
        let ok = c.execute_batch("COMMIT");
        last = t.elapsed();
        for ((_, tx), o) in batch.into_iter().zip(outs) {
            let _ = tx.send(if ok.is_ok() { o } else { Out::Err("commit failed".into()) });
        }
    }
}
async fn write<K: Keys>(a: &App<K>, op: Op) -> Out {
    match &a.writer {
        Writer::Pool => a.pool.run(move |c| apply(c, &op)).await,
        Writer::Group(tx) => {
            let (s, r) = oneshot::channel();
            tx.send((op, s)).unwrap();
            r.await.unwrap()
        }
    }
}
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
fn not_found() -> Response {
    (StatusCode::NOT_FOUND, [JSON], "{\"error\":\"User not found\"}").into_response()
}
fn fail(e: String) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, e).into_response()
}
async fn get_one<K: Keys>(Path(id): Path<i64>, State(a): S<K>) -> Response {
    let key = format!("user:{id}");
    if let Some(b) = a.redis.get(&key).await {
        return ([JSON], b).into_response();
    }
    let u = a
        .pool
        .run(move |c| {
            c.prepare_cached("SELECT id,name,email,bio,created_at FROM users WHERE id=?")
                .unwrap()
                .query_row([id], row)
                .optional()
        })
        .await;
    match u {
        Ok(Some(u)) => {
            let j = Bytes::from(serde_json::to_vec(&u).unwrap());
            a.redis.set(&key, j.clone(), 60_000).await;
            ([JSON], j).into_response()
        }
        Ok(None) => not_found(),
        Err(e) => fail(e.to_string()),
    }
}
async fn get_list<K: Keys>(Query(q): Query<PageQ>, State(a): S<K>) -> Response {
    let (page, limit) = (q.page.unwrap_or(1), q.limit.unwrap_or(20).min(100));
    let r = a
        .pool
        .run(move |c| -> rusqlite::Result<Vec<u8>> {
            let mut st =
                c.prepare_cached("SELECT id,name,email,bio,created_at FROM users ORDER BY id LIMIT ? OFFSET ?")?;
            let data = st.query_map([limit, (page - 1) * limit], row)?.collect::<Result<_, _>>()?;
            Ok(serde_json::to_vec(&Page { page, limit, data }).unwrap())
        })
        .await;
    match r {
        Ok(v) => ([JSON], v).into_response(),
        Err(e) => fail(e.to_string()),
    }
}
async fn post<K: Keys>(State(a): S<K>, Json(i): Json<Input>) -> Response {
    match write(&a, Op::Insert(i)).await {
        Out::User(u) => {
            a.redis.del(format!("user:{}", u.id)).await;
            (StatusCode::CREATED, [(header::LOCATION, format!("/users/{}", u.id))], Json(u)).into_response()
        }
        Out::Err(e) => fail(e),
        _ => not_found(),
    }
}
async fn put<K: Keys>(Path(id): Path<i64>, State(a): S<K>, Json(i): Json<Input>) -> Response {
    match write(&a, Op::Update(id, i)).await {
        Out::User(u) => {
            a.redis.del(format!("user:{id}")).await;
            Json(u).into_response()
        }
        Out::Err(e) => fail(e),
        _ => not_found(),
    }
}
async fn delete<K: Keys>(Path(id): Path<i64>, State(a): S<K>) -> Response {
    match write(&a, Op::Delete(id)).await {
        Out::Deleted => {
            a.redis.del(format!("user:{id}")).await;
            ([JSON], "{\"message\":\"User deleted\"}").into_response()
        }
        Out::Err(e) => fail(e),
        _ => not_found(),
    }
}

/// `connect` takes the port of a node, and whether it is one of a cluster.
pub fn serve<K: Keys, F: Future<Output = K> + Send>(connect: impl Fn(u16, bool) -> F + Send + Sync) {
    let env = |k: &str, d: &str| std::env::var(k).unwrap_or(d.into());
    let (port, db, rp) = (
        env("PORT", "8300").parse::<u16>().unwrap(),
        env("SQLITE_DB", "/tmp/bench.db"),
        env("REDIS_PORT", "6379").parse::<u16>().unwrap(),
    );
    let cores = std::thread::available_parallelism().unwrap().get();
    let threads = env("THREADS", &cores.to_string()).parse().unwrap();
    let conns: usize = env("POOL", "4").parse().unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(conns)
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async move {
        let free = crossbeam_channel::bounded(conns);
        for _ in 0..conns {
            free.0.send(open(&db)).unwrap();
        }
        let w = env("WRITER", "pool");
        let writer = if w != "pool" {
            let (tx, rx) = crossbeam_channel::unbounded();
            let d = db.clone();
            std::thread::spawn(move || writer_thread(d, rx, if w == "single" { 1 } else { 512 }, w == "linger"));
            Writer::Group(tx)
        } else {
            Writer::Pool
        };
        let redis = connect(rp, env("REDIS_CLUSTER", "0") == "1").await;
        let app = Router::new()
            .route("/users/{id}", get(get_one::<K>).put(put::<K>).delete(delete::<K>))
            .route("/users", get(get_list::<K>).post(post::<K>))
            .with_state(Arc::new(App { redis, pool: Arc::new(Pool { free }), writer }));
        let l = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        use axum::serve::ListenerExt;
        let l = l.tap_io(|s| {
            let _ = s.set_nodelay(true);
        });
        axum::serve(l, app).await.unwrap();
    });
}
