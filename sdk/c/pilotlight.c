/* See pilotlight.h. One loop (poll), connections that cut what was read into frames and check each against the rules of
 * docs/spec/pipe.md, and exchanges. All answers of a turn of the loop leave a connection in one write (P-18).
 * Invariants: no memory is sized by a length that has not been checked; exactly one final frame leaves for each
 * exchange (P-16), and only finish() sends it; what is freed is freed at the end of a turn, or by the call that the
 * header names. */
#define _POSIX_C_SOURCE 200809L
#include "pilotlight.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: SIGPIPE is ignored there, see prepare() */
#endif

enum {
	HEADER = 8,
	MIN_MAX_FRAME = 65536, /* until WELCOME says more */
	MAX_WELCOME = 4096,
	MAX_TEXT = 1024,     /* of RESET and LOG */
	MAX_OUT = 65536,     /* unwritten bytes of a stream beyond which pilotlight_write() takes none */
	MAX_KEPT = 131072,   /* of a buffer that is kept for the next exchange */
	MAX_SPARE = 64,      /* exchanges and read buffers that are kept */
	MAX_LIMIT = 4096,    /* of exchanges and max_own, spec §10 */
	MAX_SHARED = 64,     /* shared connections; MORE beyond them is not followed */
	BUCKETS = 64,        /* of exchange ids */
	DRAIN_REPLY_MS = 1000, /* after SIGTERM: for the gateway's DRAIN (P-32) */
	DIAL_SECONDS = 2     /* for a full backlog of the gateway's */
};
enum { END = 0x01, UPGRADE = 0x02, IGNORABLE = 0x80 };
enum type { HELLO = 1, WELCOME, REQUEST, RESPONSE, INFO, DATA, TRAILERS, STOP, RESET, PING, PONG, DRAIN, MORE, LOG };
enum kind { SHARED, OWN, ANSWER, UPGRADED };
enum { PROTOCOL = 6 }; /* the code that handlers do not send */

typedef struct {
	char *bytes;
	size_t length, room;
} buffer;

typedef struct conn {
	int fd;
	enum kind kind;
	uint32_t worker, max_frame;
	unsigned minor;
	bool welcomed, closed, failed, ending, dirty, resume, eof; /* failed: to be closed at the end of the turn */
	char *in; /* what was read and not handled is in[start..end) */
	size_t room, start, end;
	const char *part; /* of a body, inside `in`, that the handler has not read: nothing is read before it has (P-22) */
	size_t part_length;
	buffer out;
	size_t written; /* of out */
	pilotlight_exchange *open[BUCKETS]; /* that came here and have no final frame, by id */
	unsigned open_count;
	pilotlight_exchange *stream; /* own, answer, upgraded: whose answer leaves here */
	uint16_t id;                 /* own: of the exchange whose body comes */
	bool receiving;              /* own: its request direction has not ended */
} conn;

struct pilotlight_exchange {
	pilotlight_exchange *next; /* in a bucket, or among the spare ones */
	conn *in, *out;            /* of the request; of the answer. `in` may be NULL when it is gone */
	uint16_t id;
	bool offered, received, whole, begun, head_only, short_write, ended;
	int cancelled, status;
	uint32_t worker;
	int64_t deadline;
	buffer request, fields, body, trailers, request_trailers;
	const char *words[7]; /* method, scheme, authority, target, protocol, peer, request id */
	const char *names;    /* name, value, name, value … */
	size_t names_length, body_start, body_length;
	void *data;
	pilotlight_callback on_readable, on_writable, on_cancel;
};

struct pilotlight_timer {
	pilotlight_timer *next;
	int64_t at;
	pilotlight_callback callback;
	void *data;
};

/* An exchange whose on_cancel is running, which may end it, or others. */
struct cancelling {
	struct cancelling *outer;
	pilotlight_exchange *x;
};

typedef struct {
	pilotlight_callback callback;
	void *data;
} posted;

static struct {
	pilotlight_settings settings;
	pilotlight_handler handler;
	void *context;
	const char *path, *token;
	conn **conns;
	struct pollfd *polled;
	size_t count, room;
	int kinds[4]; /* how many connections of each */
	unsigned open;
	bool draining, leaving, done;
	int result;
	int self[2]; /* a pipe: signals and posted calls */
	pilotlight_timer *timers;
	pilotlight_exchange *spare;
	int spare_count;
	struct cancelling *cancelling;
	char *buffers[MAX_SPARE]; /* of MIN_MAX_FRAME + HEADER bytes */
	int buffer_count;
} S = {.self = {-1, -1}};

static void drain(bool by_gateway);
static void close_conn(conn *c, const char *why);
static void parse(conn *c);

/* ---- bytes ---- */

static void complain(const char *format, ...) {
	va_list list;
	va_start(list, format);
	fputs("pilotlight: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
}

static int64_t now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint32_t u32(const char *p) {
	const unsigned char *b = (const unsigned char *)p;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint16_t u16(const char *p) { return (uint16_t)(u32((char[4]){p[0], p[1], 0, 0})); }

static void put32(char *p, uint32_t n) {
	for (int i = 0; i < 4; i++) p[i] = (char)(unsigned char)(n >> 8 * i);
}

static bool reserve(buffer *b, size_t more) {
	if (b->room - b->length >= more) return true;
	size_t room = b->room ? b->room : 256;
	while (room - b->length < more) room *= 2;
	char *bytes = realloc(b->bytes, room);
	if (!bytes) return false;
	b->bytes = bytes;
	b->room = room;
	return true;
}

static bool append(buffer *b, const void *bytes, size_t length) {
	if (!reserve(b, length)) return false;
	if (length) memcpy(b->bytes + b->length, bytes, length);
	b->length += length;
	return true;
}

static void release(buffer *b) {
	free(b->bytes);
	*b = (buffer){0};
}

static void empty(buffer *b) {
	if (b->room > MAX_KEPT) release(b);
	b->length = 0;
}

/* Queues a frame whose payload is head, then body; it leaves at the end of the turn. */
static bool send_frame(conn *c, enum type type, int flags, uint16_t id, const char *head, size_t head_length,
                       const char *body, size_t body_length) {
	char header[HEADER];
	if (c->closed) return true; /* there is nobody any more */
	if (!reserve(&c->out, HEADER + head_length + body_length)) {
		complain("out of memory");
		c->failed = true; /* no callback is called inside of a call of the handler's */
		return false;
	}
	put32(header, (uint32_t)(head_length + body_length));
	header[4] = (char)type;
	header[5] = (char)flags;
	header[6] = (char)(id & 0xff);
	header[7] = (char)(id >> 8);
	append(&c->out, header, HEADER);
	append(&c->out, head, head_length);
	append(&c->out, body, body_length);
	c->dirty = true;
	return true;
}

static void send_reset(conn *c, uint16_t id, int code, uint32_t retry_ms, const char *text) {
	char head[8];
	size_t length = text ? strlen(text) : 0;
	if (length > MAX_TEXT) length = MAX_TEXT;
	put32(head, (uint32_t)code);
	put32(head + 4, retry_ms);
	send_frame(c, RESET, 0, id, head, sizeof head, text ? text : "", length);
}

/* Writes what is queued, as far as the socket takes it. */
static void flush(conn *c) {
	while (!c->closed && !c->failed && c->written < c->out.length) {
		ssize_t n = send(c->fd, c->out.bytes + c->written, c->out.length - c->written, MSG_NOSIGNAL);
		if (n > 0) c->written += (size_t)n;
		else if (errno == EINTR) continue;
		else if (errno == EAGAIN || errno == EWOULDBLOCK) return;
		else c->failed = true; /* the end of the stream, however it came */
	}
	if (c->written < c->out.length) return;
	c->written = 0;
	c->dirty = false;
	empty(&c->out);
	if (c->ending) {
		shutdown(c->fd, SHUT_WR);
		c->ending = false;
		c->failed = c->eof;
	}
}

/* ---- connections ---- */

static void give_buffer(conn *c) {
	if (!c->in) return;
	if (c->room == MIN_MAX_FRAME + HEADER && S.buffer_count < MAX_SPARE) S.buffers[S.buffer_count++] = c->in;
	else free(c->in);
	c->in = NULL;
	c->room = c->start = c->end = 0;
}

static bool take_buffer(conn *c, size_t need) {
	if (c->room >= need) return true;
	if (!c->in && need <= MIN_MAX_FRAME + HEADER) {
		c->in = S.buffer_count ? S.buffers[--S.buffer_count] : malloc(MIN_MAX_FRAME + HEADER);
		c->room = c->in ? MIN_MAX_FRAME + HEADER : 0;
		return c->in != NULL;
	}
	char *larger = realloc(c->in, need);
	if (!larger) return false;
	c->in = larger;
	c->room = need;
	return true;
}

static int dial_socket(void) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = DIAL_SECONDS};
	size_t length = strlen(S.path);
	if (length >= sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, S.path, length + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), result;
	if (fd < 0) return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	do result = connect(fd, (struct sockaddr *)&address, sizeof address);
	while (result < 0 && errno == EINTR);
	if (result < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		int why = errno;
		close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

/* Opens a connection and queues its HELLO (P-1). NULL: it has been said why. */
static conn *dial(enum kind kind, const uint32_t *worker) {
	static const char *const names[] = {"shared", "own", "answer"};
	char hello[512], of_kind[64] = "", of_worker[32] = "";
	if (S.count == S.room) {
		size_t room = S.room ? 2 * S.room : 16;
		conn **conns = realloc(S.conns, room * sizeof *conns);
		if (conns) S.conns = conns;
		struct pollfd *polled = realloc(S.polled, (room + 1) * sizeof *polled);
		if (polled) S.polled = polled;
		if (!conns || !polled) return complain("out of memory"), NULL;
		S.room = room;
	}
	conn *c = calloc(1, sizeof *c);
	if (!c) return complain("out of memory"), NULL;
	c->kind = kind;
	c->max_frame = MIN_MAX_FRAME;
	c->fd = dial_socket();
	if (c->fd < 0) {
		complain("cannot dial the gateway at %s: %s", S.path, strerror(errno));
		free(c);
		return NULL;
	}
	if (kind == SHARED) snprintf(of_kind, sizeof of_kind, "exchanges=%d\n", S.settings.exchanges);
	if (worker) snprintf(of_worker, sizeof of_worker, "worker=%lu\n", (unsigned long)(c->worker = *worker));
	int length = snprintf(hello, sizeof hello,
	                      "PIPE/1\ntoken=%.64s\nkind=%s\nminor=1\nmax_own=%d\nsdk=c/0.1.0\npid=%ld\n%s%s",
	                      S.token, names[kind], S.settings.max_own, (long)getpid(), of_kind, of_worker);
	S.conns[S.count++] = c;
	S.kinds[kind]++;
	return send_frame(c, HELLO, 0, 0, hello, (size_t)length, NULL, 0) ? c : NULL;
}

/* ---- the end of exchanges and connections ---- */

static void leave(void) {
	if (!S.leaving || S.open) return;
	for (size_t i = 0; i < S.count; i++)
		if (!S.conns[i]->closed && !S.conns[i]->dirty) close_conn(S.conns[i], NULL);
}

static pilotlight_exchange **place_of(conn *c, uint16_t id) {
	pilotlight_exchange **at = &c->open[id % BUCKETS];
	while (*at && (*at)->id != id) at = &(*at)->next;
	return at;
}

static void forget(pilotlight_exchange *x) {
	if (x->in) {
		pilotlight_exchange **at = place_of(x->in, x->id);
		if (*at == x) {
			*at = x->next;
			x->in->open_count--;
		}
	}
	if (x->out && x->out->stream == x) x->out->stream = NULL;
	if (x->in && x->in->stream == x) x->in->stream = NULL;
}

static void recycle(pilotlight_exchange *x) {
	buffer *all[] = {&x->request, &x->fields, &x->body, &x->trailers, &x->request_trailers};
	bool keep = S.spare_count < MAX_SPARE;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) keep ? empty(all[i]) : release(all[i]);
	S.open--;
	for (struct cancelling *one = S.cancelling; one; one = one->outer)
		if (one->x == x) one->x = NULL;
	if (!keep) {
		free(x);
		return;
	}
	x->next = S.spare;
	S.spare = x;
	S.spare_count++;
}

/* Sends the final frame of an exchange, which is gone then. */
static void finish(pilotlight_exchange *x, enum type type, int flags, const char *head, size_t head_length,
                   const char *body, size_t body_length) {
	conn *in = x->in, *out = x->out;
	if (in && in->kind == OWN && in->receiving) { /* P-21: what still comes is thrown away */
		send_frame(in, STOP, 0, x->id, NULL, 0, NULL, 0);
		in->part_length = 0;
		in->resume = true;
	}
	if (out) send_frame(out, type, flags, x->id, head, head_length, body, body_length);
	forget(x);
	recycle(x);
}

static void finish_reset(pilotlight_exchange *x, int code, uint32_t retry_ms, const char *text) {
	char head[8 + MAX_TEXT];
	size_t length = text ? strlen(text) : 0;
	if (length > MAX_TEXT) length = MAX_TEXT;
	put32(head, (uint32_t)code);
	put32(head + 4, retry_ms);
	if (length) memcpy(head + 8, text, length);
	finish(x, RESET, 0, head, 8 + length, NULL, 0);
}

/* The gateway has reset the exchange (P-26), or its connection is gone (P-34). */
static void cancel(pilotlight_exchange *x, int code) {
	if (x->cancelled) return;
	x->cancelled = code;
	if (!x->on_cancel) { /* the handler learns of it by what its next call returns */
		pilotlight_callback other = x->on_readable ? x->on_readable : x->on_writable;
		if (other) other(x->data);
		return;
	}
	pilotlight_callback callback = x->on_cancel;
	x->on_cancel = NULL;
	struct cancelling this = {S.cancelling, x};
	S.cancelling = &this;
	callback(x->data);
	if (this.x) finish_reset(x, code, 0, "cancelled");
	S.cancelling = this.outer;
}

static void close_conn(conn *c, const char *why) {
	if (c->closed) return;
	if (why) complain("a connection has ended: %s", why);
	c->closed = true;
	S.kinds[c->kind]--;
	c->part_length = 0;
	for (int i = 0; i < BUCKETS; i++) {
		while (c->open[i]) { /* one by one: callbacks may end others */
			pilotlight_exchange *x = c->open[i];
			c->open[i] = x->next;
			c->open_count--;
			x->in = NULL;
			x->received = true;
			if (x->out == c) x->out = NULL;
			if (c->stream == x) c->stream = NULL;
			if (!x->out) cancel(x, PILOTLIGHT_CANCELLED);
		}
	}
	pilotlight_exchange *x = c->stream;
	c->stream = NULL;
	if (x && x->out == c) { /* an answer that left by its own connection, or bytes of another protocol */
		x->out = NULL;
		cancel(x, PILOTLIGHT_CANCELLED);
	}
	if (S.kinds[SHARED] == 0) { /* P-33 */
		S.done = true;
		if (why) S.result = 1;
	}
}

static bool lost(conn *c, const char *why) {
	close_conn(c, why);
	return false;
}

/* The gateway has broken a rule (P-10). It returns false, for those who return whether the connection goes on. */
static bool broken(conn *c, const char *format, ...) {
	char text[256];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	send_reset(c, 0, PROTOCOL, 0, text);
	flush(c);
	return lost(c, text);
}

/* ---- frames ---- */

/* Whether `length` bytes are strings, each with its final zero, and how many (P-8). */
static bool strings(conn *c, const char *bytes, size_t length, size_t *count) {
	*count = 0;
	if (length && bytes[length - 1]) return broken(c, "P-8: the last string has no final zero byte"), false;
	for (const char *p = bytes, *end = bytes + length; p < end; p += strlen(p) + 1) ++*count;
	return true;
}

static bool take_welcome(conn *c, const char *payload, size_t length) {
	char text[MAX_WELCOME + 1], *end;
	long long worker = -1, max_frame = 0;
	if (length > MAX_WELCOME) return broken(c, "P-6: a WELCOME of %zu bytes", length);
	memcpy(text, payload, length);
	text[length] = 0;
	if (strncmp(text, "PIPE/1\n", 7)) return broken(c, "P-12: WELCOME does not begin with PIPE/1");
	for (char *line = text + 7; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (!strncmp(line, "worker=", 7)) worker = strtoll(line + 7, NULL, 10);
		if (!strncmp(line, "max_frame=", 10)) max_frame = strtoll(line + 10, NULL, 10);
		if (!strncmp(line, "minor=", 6)) c->minor = (unsigned)strtoul(line + 6, NULL, 10);
	}
	if (worker < 0 || worker > UINT32_MAX || max_frame < MIN_MAX_FRAME || max_frame > UINT32_MAX)
		return broken(c, "P-3: WELCOME says worker=%lld and max_frame=%lld", worker, max_frame);
	if (c->kind == SHARED) c->worker = (uint32_t)worker; /* others have named theirs */
	c->max_frame = (uint32_t)max_frame;
	return c->welcomed = true;
}

static pilotlight_exchange *new_exchange(void) {
	pilotlight_exchange *x = S.spare;
	if (!x) x = calloc(1, sizeof *x);
	else {
		pilotlight_exchange kept = *x;
		S.spare = x->next;
		S.spare_count--;
		*x = (pilotlight_exchange){.request = kept.request, .fields = kept.fields, .body = kept.body,
		                           .trailers = kept.trailers, .request_trailers = kept.request_trailers};
	}
	if (x) S.open++;
	return x;
}

/* Reads the head of a REQUEST into an exchange. NULL: it was no head. */
static pilotlight_exchange *read_request(conn *c, const char *payload, size_t length) {
	size_t count, head = length < 8 ? SIZE_MAX : u32(payload);
	if (length < 8 || head > length - 8) return broken(c, "P-8: a head beyond the %zu bytes of the REQUEST", length), NULL;
	if (!strings(c, payload + 8, head, &count)) return NULL;
	if (count < 7 || count % 2 == 0) return broken(c, "P-8: %zu strings in the head of a REQUEST", count), NULL;
	pilotlight_exchange *x = new_exchange();
	if (!x || !append(&x->request, payload, length) || !append(&x->fields, "\0\0\0\0\0\0\0", 8)) {
		if (x) recycle(x);
		return close_conn(c, "out of memory"), NULL;
	}
	const char *p = x->request.bytes + 8, *end = p + head;
	for (int i = 0; i < 7; i++, p += strlen(p) + 1) x->words[i] = p;
	x->names = p;
	x->names_length = (size_t)(end - p);
	x->body_start = 8 + head;
	x->body_length = length - 8 - head;
	uint32_t ms = u32(payload + 4);
	x->deadline = ms ? now_ms() + ms : 0;
	x->head_only = !strcmp(x->words[0], "HEAD");
	x->status = 200;
	return x;
}

static bool take_request(conn *c, int flags, uint16_t id, const char *payload, size_t length) {
	bool end = flags & END;
	if (id == 0) return broken(c, "P-15: a REQUEST with exchange id 0");
	if (c->kind == OWN && (c->receiving || c->open_count))
		return broken(c, "P-19: a REQUEST before the exchange before it has ended");
	if (c->kind == SHARED && !end) return broken(c, "P-14: a REQUEST without END on a shared connection");
	if (*place_of(c, id)) return broken(c, "P-15: exchange %u is still open", id);
	if (c->open_count >= (unsigned)S.settings.exchanges)
		return broken(c, "P-14: more than exchanges=%d open", S.settings.exchanges);
	bool offered = flags & UPGRADE && c->minor && c->kind == OWN;
	if (offered && !end) return broken(c, "P-38: a REQUEST with UPGRADE and without END");
	pilotlight_exchange *x = read_request(c, payload, length);
	if (!x) return false;
	x->in = x->out = c;
	x->id = c->id = id;
	x->worker = c->worker;
	x->offered = offered;
	x->received = x->whole = end;
	x->next = c->open[id % BUCKETS];
	c->open[id % BUCKETS] = x;
	c->open_count++;
	if (c->kind == OWN) {
		c->receiving = !end;
		c->stream = x;
	}
	if (S.draining) finish_reset(x, PILOTLIGHT_REFUSED, 0, "this instance is draining"); /* P-31 */
	else S.handler(x, S.context);
	return true;
}

static bool take_part(conn *c, enum type type, int flags, uint16_t id, const char *payload, size_t length) {
	bool end = type == TRAILERS || flags & END;
	size_t count;
	if (!c->receiving || id != c->id) return broken(c, "P-20: a body for exchange %u, which takes none", id);
	if (type == TRAILERS) {
		if (!strings(c, payload, length, &count)) return false;
		if (count % 2) return broken(c, "P-8: a name without a value in TRAILERS");
	}
	c->receiving = !end;
	pilotlight_exchange *x = c->stream;
	if (!x) return true; /* it has been answered */
	x->received = end;
	if (type == TRAILERS && !append(&x->request_trailers, payload, length)) return lost(c, "out of memory");
	if (type == DATA) {
		c->part = payload;
		c->part_length = length;
	}
	if (x->on_readable && (length || end)) x->on_readable(x->data);
	return true;
}

static bool take_reset(conn *c, uint16_t id, const char *payload, size_t length) {
	if (length < 8) return broken(c, "P-11: a RESET of %zu bytes", length);
	if (id == 0) {
		complain("the gateway says: %.*s (code %u)", (int)(length - 8), payload + 8, u16(payload));
		if (c->kind == SHARED) S.result = 1;
		return lost(c, NULL);
	}
	if (c->kind == ANSWER) return broken(c, "P-25: a RESET for an exchange on an answer connection");
	if (c->kind == OWN && id == c->id) c->receiving = false; /* P-26: no DATA follows */
	pilotlight_exchange *x = *place_of(c, id);
	if (!x) return true; /* P-26: it has ended */
	x->received = true;
	cancel(x, u16(payload) ? u16(payload) : PILOTLIGHT_CANCELLED);
	return true;
}

static bool take_more(conn *c, const char *payload) {
	unsigned number = u16(payload), count = u16(payload + 2);
	uint32_t worker = u32(payload + 4);
	if (number != 1 && number != 2) return broken(c, "P-11: MORE of kind %u", number);
	enum kind kind = number == 1 ? OWN : SHARED;
	int max = kind == OWN ? S.settings.max_own : MAX_SHARED;
	while (count-- && S.kinds[kind] < max && !S.draining) /* P-23 */
		if (!dial(kind, &worker)) break;
	return true;
}

static bool take_frame(conn *c, enum type type, int flags, uint16_t id, const char *payload, size_t length) {
	static const unsigned allowed[LOG + 1] = {/* P-11: kinds as bits */
		[WELCOME] = 7, [REQUEST] = 3, [DATA] = 2, [TRAILERS] = 2, [RESET] = 7, [PING] = 3, [PONG] = 3, [DRAIN] = 1,
		[MORE] = 1};
	static const size_t sizes[LOG + 1] = {[PING] = 8, [PONG] = 8, [DRAIN] = 4, [MORE] = 8};
	if (type < HELLO || type > LOG)
		return flags & IGNORABLE || broken(c, "P-7: type %d is not known and not IGNORABLE", (int)type);
	if (!(allowed[type] >> c->kind & 1))
		return broken(c, "P-11: type %d does not come on this kind of connection", (int)type);
	if (sizes[type] && sizes[type] != length) return broken(c, "P-11: type %d with %zu bytes", (int)type, length);
	if (c->welcomed == (type == WELCOME) && !(type == RESET && id == 0))
		return broken(c, "P-3: WELCOME is the first frame, once");
	switch (type) {
	case WELCOME: return take_welcome(c, payload, length);
	case REQUEST: return take_request(c, flags, id, payload, length);
	case DATA:
	case TRAILERS: return take_part(c, type, flags, id, payload, length);
	case RESET: return take_reset(c, id, payload, length);
	case MORE: return take_more(c, payload);
	case PING: send_frame(c, PONG, 0, 0, payload, length, NULL, 0); break; /* P-35 */
	case DRAIN: drain(true); break;
	default: break;
	}
	return true;
}

/* Handles the frames that are whole, until a handler has a part of a body to read. */
static void parse(conn *c) {
	while (!c->closed && c->kind != UPGRADED && !c->part_length && c->end - c->start >= HEADER) {
		const char *header = c->in + c->start;
		uint32_t length = u32(header);
		if (length > c->max_frame) {
			broken(c, "P-6: a payload of %lu bytes, max_frame is %lu", (unsigned long)length, (unsigned long)c->max_frame);
			return;
		}
		if (c->end - c->start - HEADER < length) return;
		c->start += HEADER + (size_t)length;
		enum type type = (enum type)(unsigned char)header[4];
		take_frame(c, type, (unsigned char)header[5], u16(header + 6), header + HEADER, length);
	}
	if (!c->closed && c->kind == UPGRADED && !c->part_length && c->start < c->end) {
		c->part = c->in + c->start;
		c->part_length = c->end - c->start;
		c->start = c->end;
		if (c->stream && c->stream->on_readable) c->stream->on_readable(c->stream->data);
	}
}

/* Reads once. */
static void fill(conn *c) {
	size_t need = HEADER;
	if (c->end - c->start >= HEADER && c->kind != UPGRADED) need += u32(c->in + c->start); /* parse has checked it (P-6) */
	if (!take_buffer(c, need)) {
		close_conn(c, "out of memory");
		return;
	}
	if (c->start) {
		memmove(c->in, c->in + c->start, c->end - c->start);
		c->end -= c->start;
		c->start = 0;
	}
	ssize_t n = recv(c->fd, c->in + c->end, c->room - c->end, 0);
	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) n = 0;
	else if (n == 0 && c->kind == UPGRADED) { /* P-41: the end of this direction only */
		c->eof = true;
		if (c->stream && c->stream->on_readable) c->stream->on_readable(c->stream->data);
	} else if (n <= 0) {
		close_conn(c, NULL);
		return;
	}
	c->end += (size_t)n;
	parse(c);
}

/* ---- the service ---- */

static void drain_now(void *data) {
	(void)data;
	drain(true);
}

/* Finishes what is open and refuses the rest: P-31 by the gateway, P-32 by a signal or pilotlight_drain(). */
static void drain(bool by_gateway) {
	bool first = !S.draining;
	S.draining = true;
	S.leaving = S.leaving || by_gateway;
	if (!first) return;
	for (size_t i = 0; !by_gateway && i < S.count; i++)
		if (S.conns[i]->kind == SHARED) send_frame(S.conns[i], DRAIN, 0, 0, "\0\0\0", 4, NULL, 0);
	if (!by_gateway && !pilotlight_after(DRAIN_REPLY_MS, drain_now, NULL)) S.leaving = true;
	if (S.settings.on_drain) S.settings.on_drain(S.context);
}

static void on_signal(int number) {
	int saved = errno;
	posted call = {NULL, NULL};
	ssize_t n = write(S.self[1], &call, sizeof call);
	(void)n; /* full: the loop is told already */
	signal(number, SIG_DFL); /* the next one ends the process */
	errno = saved;
}

static void run_posted(void) {
	posted call;
	while (read(S.self[0], &call, sizeof call) == (ssize_t)sizeof call) {
		if (call.callback) call.callback(call.data);
		else drain(false);
	}
}

static void run_timers(void) {
	int64_t now = now_ms();
	while (S.timers && S.timers->at <= now) {
		pilotlight_timer *timer = S.timers;
		S.timers = timer->next;
		timer->callback(timer->data);
		free(timer);
	}
}

static int wait_ms(void) {
	int64_t left = S.timers ? S.timers->at - now_ms() : 60000;
	for (size_t i = 0; i < S.count; i++)
		if (S.conns[i]->resume) return 0;
	return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/* What callbacks have left behind: parts that were read, frames to write, connections that are closed. */
static void settle(void) {
	for (size_t i = 0; i < S.count; i++) {
		conn *c = S.conns[i];
		if (!c->resume || c->closed) continue;
		c->resume = false;
		parse(c);
	}
	for (size_t i = 0; i < S.count; i++) {
		conn *c = S.conns[i];
		if (c->dirty || c->ending) flush(c);
		if (c->failed) close_conn(c, NULL);
		pilotlight_exchange *x = c->stream;
		if (!c->closed && x && x->short_write && x->on_writable && c->out.length - c->written < MAX_OUT / 2) {
			x->short_write = false;
			x->on_writable(x->data);
			c->resume = c->resume || c->dirty; /* a turn without waiting, to write it */
		}
		if (c->start == c->end && !c->part_length) give_buffer(c);
	}
	leave();
	for (size_t i = 0; i < S.count;) {
		conn *c = S.conns[i];
		if (!c->closed) {
			i++;
			continue;
		}
		close(c->fd);
		give_buffer(c);
		release(&c->out);
		free(c);
		S.conns[i] = S.conns[--S.count];
	}
}

static void turn(void) {
	S.polled[0] = (struct pollfd){.fd = S.self[0], .events = POLLIN};
	size_t count = S.count;
	for (size_t i = 0; i < count; i++) {
		conn *c = S.conns[i];
		short events = c->part_length || c->eof ? 0 : POLLIN;
		if (c->dirty) events |= POLLOUT;
		/* What is not read may still have an end: of an own connection, and of one where all has been read. */
		bool watched = events || c->kind == OWN || c->eof;
		S.polled[i + 1] = (struct pollfd){.fd = watched ? c->fd : -1, .events = events};
	}
	if (poll(S.polled, (nfds_t)(count + 1), wait_ms()) < 0 && errno != EINTR) {
		complain("poll: %s", strerror(errno));
		S.done = true;
		S.result = 1;
		return;
	}
	if (S.polled[0].revents) run_posted();
	run_timers();
	for (size_t i = 0; i < count; i++) { /* connections are removed in settle() only; new ones are behind these */
		conn *c = S.conns[i];
		short events = S.polled[i + 1].events, got = S.polled[i + 1].revents;
		if (events & POLLIN && got & (POLLIN | POLLHUP | POLLERR) && !c->closed && !c->part_length) fill(c);
		else if (got & (POLLHUP | POLLERR) && !(events & POLLOUT)) close_conn(c, NULL);
	}
	settle();
}

static int prepare(void) {
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	if (pipe(S.self) < 0) return -1;
	for (int i = 0; i < 2; i++)
		if (fcntl(S.self[i], F_SETFL, O_NONBLOCK) < 0 || fcntl(S.self[i], F_SETFD, FD_CLOEXEC) < 0) return -1;
	if (MSG_NOSIGNAL == 0) signal(SIGPIPE, SIG_IGN);
	return sigaction(SIGTERM, &action, NULL) < 0 || sigaction(SIGINT, &action, NULL) < 0 ? -1 : 0;
}

static void clean_up(void) {
	for (size_t i = 0; i < S.count; i++) close_conn(S.conns[i], NULL);
	S.leaving = false;
	settle();
	while (S.spare) {
		pilotlight_exchange *x = S.spare;
		buffer *all[] = {&x->request, &x->fields, &x->body, &x->trailers, &x->request_trailers};
		S.spare = x->next;
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) release(all[i]);
		free(x);
	}
	while (S.timers) pilotlight_stop_timer(S.timers);
	while (S.buffer_count) free(S.buffers[--S.buffer_count]);
	free(S.conns);
	free(S.polled);
}

static int limit(int value, int otherwise, int max) { return value <= 0 ? otherwise : value > max ? max : value; }

int pilotlight_serve(pilotlight_handler handler, void *context) {
	return pilotlight_serve_with(NULL, handler, context);
}

int pilotlight_serve_with(const pilotlight_settings *settings, pilotlight_handler handler, void *context) {
	S.path = getenv("PILOTLIGHT_SOCKET");
	S.token = getenv("PILOTLIGHT_TOKEN");
	if (!S.path || !S.token || !*S.path || !*S.token) {
		complain("%s is not set, the gateway does that: add the program to pilotlight.toml (command = [\"FILE\"], "
		         "transport = \"pipe\") and run `pilotlight`", S.path && *S.path ? "PILOTLIGHT_TOKEN" : "PILOTLIGHT_SOCKET");
		return 2;
	}
	if (settings) S.settings = *settings;
	S.settings.exchanges = limit(S.settings.exchanges, 64, MAX_LIMIT);
	S.settings.max_own = limit(S.settings.max_own, 64, MAX_LIMIT);
	S.settings.max_upgraded = limit(S.settings.max_upgraded, 1024, 1 << 20);
	S.handler = handler;
	S.context = context;
	if (prepare() < 0) {
		complain("%s", strerror(errno));
		return 1;
	}
	if (!dial(SHARED, NULL)) return 1;
	for (settle(); !S.done && S.count;) turn();
	clean_up();
	return S.result;
}

void pilotlight_drain(void) { drain(false); }

/* ---- the request ---- */

const char *pilotlight_method(const pilotlight_exchange *x) { return x->words[0]; }
const char *pilotlight_scheme(const pilotlight_exchange *x) { return x->words[1]; }
const char *pilotlight_authority(const pilotlight_exchange *x) { return x->words[2]; }
const char *pilotlight_target(const pilotlight_exchange *x) { return x->words[3]; }
const char *pilotlight_protocol(const pilotlight_exchange *x) { return x->words[4]; }
const char *pilotlight_peer(const pilotlight_exchange *x) { return x->words[5]; }
const char *pilotlight_request_id(const pilotlight_exchange *x) { return x->words[6]; }

static const char *value_of(const char *p, size_t length, const char *name) {
	for (const char *end = p + length; p < end;) {
		const char *value = p + strlen(p) + 1;
		if (!strcmp(p, name)) return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

static const char *string_at(const pilotlight_exchange *x, size_t index) {
	for (const char *p = x->names, *end = p + x->names_length; p < end; p += strlen(p) + 1)
		if (index-- == 0) return p;
	return NULL;
}

const char *pilotlight_field(const pilotlight_exchange *x, const char *name) {
	return value_of(x->names, x->names_length, name);
}

const char *pilotlight_trailer(const pilotlight_exchange *x, const char *name) {
	return value_of(x->request_trailers.bytes, x->request_trailers.length, name);
}

size_t pilotlight_field_count(const pilotlight_exchange *x) {
	size_t count = 0;
	for (const char *p = x->names, *end = p + x->names_length; p < end; p += strlen(p) + 1) count++;
	return count / 2;
}

const char *pilotlight_field_name(const pilotlight_exchange *x, size_t index) { return string_at(x, 2 * index); }
const char *pilotlight_field_value(const pilotlight_exchange *x, size_t index) { return string_at(x, 2 * index + 1); }
const char *pilotlight_offer(const pilotlight_exchange *x) {
	return x->offered ? pilotlight_field(x, "upgrade") : NULL;
}
int pilotlight_cancelled(const pilotlight_exchange *x) { return x->cancelled; }

int64_t pilotlight_deadline_ms(const pilotlight_exchange *x) {
	int64_t left = x->deadline - now_ms();
	return x->deadline == 0 ? -1 : left < 0 ? 0 : left;
}

const void *pilotlight_body(const pilotlight_exchange *x, size_t *size) {
	*size = x->whole ? x->body_length : 0;
	return x->whole ? x->request.bytes + x->body_start : NULL;
}

static bool is_upgraded(const pilotlight_exchange *x) { return x->out && x->out->kind == UPGRADED; }

long pilotlight_read(pilotlight_exchange *x, void *to, size_t size) {
	conn *c = x->in;
	if (x->cancelled) return PILOTLIGHT_GONE;
	if (x->body_length) {
		size_t n = size < x->body_length ? size : x->body_length;
		memcpy(to, x->request.bytes + x->body_start, n);
		x->body_start += n;
		x->body_length -= n;
		return (long)n;
	}
	if (!c) return x->whole ? 0 : PILOTLIGHT_GONE;
	bool streams = c->stream == x; /* the parts of this connection are this exchange's */
	if (streams && c->part_length) {
		size_t n = size < c->part_length ? size : c->part_length;
		memcpy(to, c->part, n);
		c->part += n;
		c->part_length -= n;
		c->resume = c->resume || !c->part_length;
		return (long)n;
	}
	if (c->kind != UPGRADED) return x->received ? 0 : PILOTLIGHT_AGAIN;
	if (!c->eof) return PILOTLIGHT_AGAIN;
	if (x->ended) { /* both directions have */
		forget(x);
		recycle(x);
		if (!c->ending) close_conn(c, NULL);
	}
	return 0;
}

/* ---- the answer ---- */

/* Appends a field: its name in lower case, its value without what it must not have (P-8). */
static int add_field(buffer *b, const char *name, const char *value) {
	static const char *const kept_here[] = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding",
	                                        "upgrade", "expect"};
	static const char in_names[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t start = b->length, name_length = strlen(name), value_length = strlen(value);
	if (!name_length || name_length != strspn(name, in_names)) return PILOTLIGHT_MISUSE;
	if (start + name_length + value_length + 2 > MIN_MAX_FRAME) return PILOTLIGHT_MEMORY;
	if (!append(b, name, name_length + 1) || !append(b, value, value_length + 1)) {
		b->length = start;
		return PILOTLIGHT_MEMORY;
	}
	for (char *p = b->bytes + start; *p; p++) *p = (char)tolower((unsigned char)*p);
	for (char *p = b->bytes + start + name_length + 1; *p; p++)
		if (*p == '\r' || *p == '\n') *p = ' ';
	for (size_t i = 0; i < sizeof kept_here / sizeof *kept_here; i++)
		if (!strcmp(b->bytes + start, kept_here[i])) b->length = start; /* P-9: does not cross */
	return PILOTLIGHT_OK;
}

int pilotlight_status(pilotlight_exchange *x, int status) {
	if (x->begun || status < 200 || status > 999) return PILOTLIGHT_MISUSE;
	x->status = status;
	return PILOTLIGHT_OK;
}

int pilotlight_header(pilotlight_exchange *x, const char *name, const char *value) {
	return x->begun ? PILOTLIGHT_MISUSE : add_field(&x->fields, name, value);
}

int pilotlight_add_trailer(pilotlight_exchange *x, const char *name, const char *value) {
	return x->ended || is_upgraded(x) ? PILOTLIGHT_MISUSE : add_field(&x->trailers, name, value);
}

/* The connection for frames that must not be on a shared one (P-17): an idle answer connection, or a new one (P-24). */
static conn *stream_of(pilotlight_exchange *x) {
	if (!x->out || x->out->kind != SHARED) return x->out;
	conn *c = NULL;
	for (size_t i = 0; i < S.count && !c; i++) {
		conn *one = S.conns[i];
		if (one->kind == ANSWER && !one->closed && !one->failed && !one->stream && one->worker == x->worker) c = one;
	}
	if (!c) c = dial(ANSWER, &x->worker);
	if (!c) return NULL;
	c->stream = x;
	return x->out = c;
}

/* The payload of RESPONSE or INFO: the fields, whose first eight bytes are kept for this. */
static const char *head_of(pilotlight_exchange *x, int status) {
	put32(x->fields.bytes, (uint32_t)(x->fields.length - 8));
	put32(x->fields.bytes + 4, (uint32_t)status);
	return x->fields.bytes;
}

static bool has_body(const pilotlight_exchange *x) { return !x->head_only && x->status != 204 && x->status != 304; }

/* Sends the head, and the body so far, as the beginning of a stream. */
static int begin(pilotlight_exchange *x) {
	if (x->begun || x->cancelled) return x->cancelled ? PILOTLIGHT_GONE : PILOTLIGHT_OK;
	conn *c = stream_of(x);
	if (!c) return PILOTLIGHT_GONE;
	x->begun = true;
	send_frame(c, RESPONSE, 0, x->id, head_of(x, x->status), x->fields.length, NULL, 0);
	if (x->body.length) send_frame(c, DATA, 0, x->id, x->body.bytes, x->body.length, NULL, 0);
	x->body.length = 0;
	return x->out ? PILOTLIGHT_OK : PILOTLIGHT_GONE;
}

int pilotlight_info(pilotlight_exchange *x, int status) {
	if (x->begun || status < 102 || status > 199) return PILOTLIGHT_MISUSE;
	conn *c = x->cancelled ? NULL : stream_of(x);
	if (!c) return PILOTLIGHT_GONE;
	send_frame(c, INFO, 0, x->id, head_of(x, status), x->fields.length, NULL, 0);
	x->fields.length = 8;
	return PILOTLIGHT_OK;
}

long pilotlight_write(pilotlight_exchange *x, const void *bytes, size_t size) {
	if (x->ended) return PILOTLIGHT_MISUSE;
	if (x->cancelled || !x->out) return PILOTLIGHT_GONE;
	if (!has_body(x)) return (long)size;
	if (!x->begun) {
		if (x->fields.length + x->body.length + size <= MIN_MAX_FRAME)
			return append(&x->body, bytes, size) ? (long)size : PILOTLIGHT_MEMORY;
		int failed = begin(x);
		if (failed) return failed;
	}
	conn *c = x->out;
	size_t taken = 0;
	while (taken < size) {
		size_t held = c->out.length - c->written;
		if (held >= MAX_OUT && c->dirty) {
			flush(c);
			if (c->failed) return PILOTLIGHT_GONE;
			held = c->out.length - c->written;
		}
		if (held >= MAX_OUT) break;
		size_t n = size - taken < MAX_OUT ? size - taken : MAX_OUT;
		const char *from = (const char *)bytes + taken;
		bool queued = is_upgraded(x) ? append(&c->out, from, n) : send_frame(c, DATA, 0, x->id, from, n, NULL, 0);
		if (!queued) return PILOTLIGHT_MEMORY;
		c->dirty = true;
		taken += n;
	}
	x->short_write = taken < size;
	return (long)taken;
}

int pilotlight_flush(pilotlight_exchange *x) { return x->ended ? PILOTLIGHT_MISUSE : begin(x); }

int pilotlight_end(pilotlight_exchange *x) {
	conn *c = x->out;
	if (x->ended) return PILOTLIGHT_MISUSE;
	if (x->cancelled || !c) {
		finish_reset(x, x->cancelled ? x->cancelled : PILOTLIGHT_INTERNAL, 0, "cancelled");
		return PILOTLIGHT_GONE;
	}
	if (is_upgraded(x)) {
		x->ended = c->ending = true;
		if (c->eof && !c->part_length) {
			forget(x);
			recycle(x);
		}
		return PILOTLIGHT_OK;
	}
	size_t trailers = has_body(x) ? x->trailers.length : 0;
	if (!x->begun && !trailers && c->kind != ANSWER) {
		finish(x, RESPONSE, END, head_of(x, x->status), x->fields.length, x->body.bytes, x->body.length);
		return PILOTLIGHT_OK;
	}
	if (begin(x)) return finish_reset(x, PILOTLIGHT_INTERNAL, 0, "no connection for a stream"), PILOTLIGHT_GONE;
	finish(x, trailers ? TRAILERS : DATA, END, x->trailers.bytes, trailers, NULL, 0);
	return PILOTLIGHT_OK;
}

int pilotlight_answer(pilotlight_exchange *x, int status, const char *type, const void *body, size_t size) {
	int failed = pilotlight_status(x, status);
	if (!failed && type) failed = pilotlight_header(x, "content-type", type);
	if (!failed && x->fields.length + size > MIN_MAX_FRAME) failed = PILOTLIGHT_MEMORY; /* write it in parts */
	if (!failed && size && pilotlight_write(x, body, size) == PILOTLIGHT_MEMORY) failed = PILOTLIGHT_MEMORY;
	return failed ? failed : pilotlight_end(x);
}

int pilotlight_reset(pilotlight_exchange *x, int code, uint32_t retry_after_ms, const char *text) {
	if (is_upgraded(x)) {
		conn *c = x->out;
		forget(x);
		recycle(x);
		close_conn(c, NULL);
		return PILOTLIGHT_OK;
	}
	if (x->begun && code != PILOTLIGHT_CANCELLED) code = PILOTLIGHT_INTERNAL; /* P-29: no REFUSED after a frame */
	finish_reset(x, x->cancelled ? x->cancelled : code, retry_after_ms, text);
	return PILOTLIGHT_OK;
}

void pilotlight_log(pilotlight_exchange *x, int level, const char *text) {
	char first = (char)level;
	size_t length = strlen(text);
	conn *c = x ? x->out : NULL;
	if (!c || c->kind == UPGRADED || c->closed) {
		fprintf(stderr, "%s\n", text);
		return;
	}
	if (length > MAX_TEXT) length = MAX_TEXT;
	send_frame(c, LOG, 0, x->id, &first, 1, text, length);
}

/* ---- another protocol ---- */

static bool is_offered(const char *offer, const char *protocol) {
	size_t length = strlen(protocol);
	for (; offer && *offer && length; offer += *offer == ',') {
		offer += strspn(offer, " \t");
		size_t n = strcspn(offer, ",");
		while (n && (offer[n - 1] == ' ' || offer[n - 1] == '\t')) n--;
		if (n == length && !strncmp(offer, protocol, n)) return true;
		offer += strcspn(offer, ",");
	}
	return false;
}

int pilotlight_upgrade(pilotlight_exchange *x, const char *protocol) {
	conn *c = x->in;
	if (x->cancelled || !c) return PILOTLIGHT_GONE;
	if (!is_offered(pilotlight_offer(x), protocol) || x->begun || x->ended) return PILOTLIGHT_MISUSE; /* P-40 */
	if (S.kinds[UPGRADED] >= S.settings.max_upgraded) return PILOTLIGHT_MEMORY; /* P-42 */
	if (!append(&x->fields, "upgrade", 8) || !append(&x->fields, protocol, strlen(protocol) + 1)) return PILOTLIGHT_MEMORY;
	send_frame(c, RESPONSE, UPGRADE, x->id, head_of(x, 101), x->fields.length, NULL, 0);
	*place_of(c, x->id) = x->next;
	x->next = NULL;
	c->open_count--;
	c->kind = UPGRADED;
	S.kinds[OWN]--;
	S.kinds[UPGRADED]++;
	c->resume = true; /* bytes that came with the request */
	x->begun = true;
	return PILOTLIGHT_OK;
}

/* ---- callbacks ---- */

void pilotlight_set_data(pilotlight_exchange *x, void *data) { x->data = data; }
void *pilotlight_data(const pilotlight_exchange *x) { return x->data; }
void pilotlight_on_readable(pilotlight_exchange *x, pilotlight_callback callback) { x->on_readable = callback; }
void pilotlight_on_writable(pilotlight_exchange *x, pilotlight_callback callback) { x->on_writable = callback; }
void pilotlight_on_cancel(pilotlight_exchange *x, pilotlight_callback callback) { x->on_cancel = callback; }

pilotlight_timer *pilotlight_after(unsigned ms, pilotlight_callback callback, void *data) {
	pilotlight_timer *timer = malloc(sizeof *timer), **at = &S.timers;
	if (!timer) return NULL;
	*timer = (pilotlight_timer){.at = now_ms() + ms, .callback = callback, .data = data};
	while (*at && (*at)->at <= timer->at) at = &(*at)->next;
	timer->next = *at;
	return *at = timer;
}

void pilotlight_stop_timer(pilotlight_timer *timer) {
	pilotlight_timer **at = &S.timers;
	while (*at && *at != timer) at = &(*at)->next;
	if (!*at) return;
	*at = timer->next;
	free(timer);
}

int pilotlight_post(pilotlight_callback callback, void *data) {
	posted call = {callback, data};
	ssize_t n;
	do n = write(S.self[1], &call, sizeof call); /* at most PIPE_BUF bytes: whole, or not at all */
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof call ? PILOTLIGHT_OK : PILOTLIGHT_AGAIN;
}
