/* Pilotlight's SDK for C: answers the HTTP requests that the gateway sends over Pipe/1 (docs/spec/pipe.md).
 *
 * pilotlight_serve() runs an event loop in the calling thread and calls the handler for each request, in that thread.
 * The handler must not block. It answers at once, or keeps the exchange and answers from a callback, a timer, or what
 * another thread has posted. C99 and POSIX, nothing else; all types are opaque or plain, so an FFI can use it.
 *
 * An exchange is valid until pilotlight_end() or pilotlight_reset(), or until its on_cancel callback returns. Texts and
 * bodies that accessors return are valid as long. */
#ifndef PILOTLIGHT_H
#define PILOTLIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pilotlight_exchange pilotlight_exchange;
typedef struct pilotlight_timer pilotlight_timer;
typedef void (*pilotlight_handler)(pilotlight_exchange *x, void *context);
typedef void (*pilotlight_callback)(void *data);

enum { /* what functions return besides sizes */
	PILOTLIGHT_OK = 0,
	PILOTLIGHT_GONE = -1,  /* the exchange was cancelled; the answer goes nowhere, but has to be ended */
	PILOTLIGHT_AGAIN = -2, /* nothing now: on_readable or on_writable will be called */
	PILOTLIGHT_MISUSE = -3, /* too late or too early, or an argument that is none */
	PILOTLIGHT_MEMORY = -4 /* there is none, or a head would not fit one frame */
};
enum { /* codes of pilotlight_reset() and pilotlight_cancelled() */
	PILOTLIGHT_CANCELLED = 1, /* the client has gone */
	PILOTLIGHT_DEADLINE = 2,
	PILOTLIGHT_REFUSED = 3,    /* nothing has happened: any instance may get the request */
	PILOTLIGHT_OVERLOADED = 4, /* likewise, and for how long there is too much to do: 503, Retry-After */
	PILOTLIGHT_INTERNAL = 5,   /* the handler failed: 502, or a cut answer */
	PILOTLIGHT_TOO_LARGE = 7   /* the request's body: 413 */
};
enum { PILOTLIGHT_ERROR = 1, PILOTLIGHT_WARN, PILOTLIGHT_INFO, PILOTLIGHT_DEBUG, PILOTLIGHT_TRACE };

/* What is zero has the value that is named here. */
typedef struct pilotlight_settings {
	int exchanges;    /* 64: at once on a shared connection, 4,096 at most */
	int max_own;      /* 64: large or streamed requests at once, 4,096 at most */
	int max_upgraded; /* 1,024: connections that have switched to another protocol */
	pilotlight_callback on_drain; /* the instance is to end: close what has switched; gets the handler's context */
} pilotlight_settings;

/* Until the gateway, SIGTERM or SIGINT ends the service. 0: done. 1: the gateway refused it, broke a rule, or could not
 * be reached. 2: not started by the gateway. A line on standard error says what and why. Once in a process. */
int pilotlight_serve(pilotlight_handler handler, void *context);
int pilotlight_serve_with(const pilotlight_settings *settings, pilotlight_handler handler, void *context);
void pilotlight_drain(void); /* as SIGTERM does */

/* ---- the request ---- */
const char *pilotlight_method(const pilotlight_exchange *x);
const char *pilotlight_scheme(const pilotlight_exchange *x);
const char *pilotlight_authority(const pilotlight_exchange *x);
const char *pilotlight_target(const pilotlight_exchange *x); /* path and query as the client sent them */
const char *pilotlight_protocol(const pilotlight_exchange *x);
const char *pilotlight_peer(const pilotlight_exchange *x); /* address:port of the client, or empty */
const char *pilotlight_request_id(const pilotlight_exchange *x);
const char *pilotlight_field(const pilotlight_exchange *x, const char *name);   /* the first, name in lower case; NULL */
const char *pilotlight_trailer(const pilotlight_exchange *x, const char *name); /* once read returned 0 */
size_t pilotlight_field_count(const pilotlight_exchange *x);
const char *pilotlight_field_name(const pilotlight_exchange *x, size_t index);
const char *pilotlight_field_value(const pilotlight_exchange *x, size_t index);
int64_t pilotlight_deadline_ms(const pilotlight_exchange *x); /* left; -1: no deadline */
int pilotlight_cancelled(const pilotlight_exchange *x);       /* 0, or the code */
/* Bytes of the body; 0 at its end; GONE; AGAIN. While it is not read its connection is not read either. */
long pilotlight_read(pilotlight_exchange *x, void *buffer, size_t size);
/* All of the body if it came whole, as small ones do; else NULL. */
const void *pilotlight_body(const pilotlight_exchange *x, size_t *size);

/* ---- the answer ---- */
int pilotlight_status(pilotlight_exchange *x, int status); /* 200 unless it is called */
int pilotlight_header(pilotlight_exchange *x, const char *name, const char *value);
int pilotlight_info(pilotlight_exchange *x, int status); /* sends an interim answer with the headers so far */
/* How many bytes were taken: fewer than `size`, perhaps none, when the socket takes no more: see on_writable. */
long pilotlight_write(pilotlight_exchange *x, const void *bytes, size_t size);
int pilotlight_flush(pilotlight_exchange *x); /* what was written is sent now; the answer is a stream from here on */
int pilotlight_add_trailer(pilotlight_exchange *x, const char *name, const char *value);
int pilotlight_end(pilotlight_exchange *x);
int pilotlight_answer(pilotlight_exchange *x, int status, const char *type, const void *body, size_t size); /* and ends */
int pilotlight_reset(pilotlight_exchange *x, int code, uint32_t retry_after_ms, const char *text);
void pilotlight_log(pilotlight_exchange *x, int level, const char *text); /* x may be NULL */

/* ---- callbacks: each gets the exchange's data ---- */
void pilotlight_set_data(pilotlight_exchange *x, void *data);
void *pilotlight_data(const pilotlight_exchange *x);
void pilotlight_on_readable(pilotlight_exchange *x, pilotlight_callback callback);
void pilotlight_on_writable(pilotlight_exchange *x, pilotlight_callback callback); /* behind a write that was short */
/* The client has gone, or the deadline is over. The exchange ends by itself when the callback returns: forget it.
 * Without this callback it stays until the handler ends it; on_readable, or else on_writable, is called then, and what
 * they call returns GONE. */
void pilotlight_on_cancel(pilotlight_exchange *x, pilotlight_callback callback);
pilotlight_timer *pilotlight_after(unsigned ms, pilotlight_callback callback, void *data); /* NULL: no memory */
void pilotlight_stop_timer(pilotlight_timer *timer);                                      /* before it has fired */
int pilotlight_post(pilotlight_callback callback, void *data); /* from any thread: runs it in the loop */

/* ---- another protocol ---- */
const char *pilotlight_offer(const pilotlight_exchange *x); /* what the client would switch to: `a, b`; NULL */
/* Answers 101 with the headers so far. MISUSE: `protocol` is not offered; MEMORY: none, or max_upgraded have switched
 * (reset the exchange with OVERLOADED). From here on read, write, on_readable, on_writable and on_cancel (the connection
 * is broken) are about the other protocol's bytes. pilotlight_end() ends this direction; the exchange is gone when both
 * have ended: in that call if read has returned 0 before it, else in the read that returns 0. reset closes at once. */
int pilotlight_upgrade(pilotlight_exchange *x, const char *protocol);

#ifdef __cplusplus
}
#endif
#endif
