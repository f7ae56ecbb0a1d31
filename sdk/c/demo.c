/* The demo service that every SDK has; sdk/conformance drives it. */
#define _POSIX_C_SOURCE 200809L
#include "pilotlight.h"
#include "sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PERIOD = 251, BLOCK = PERIOD * 256, TICK_MS = 20, MAX_SEEN = 256, MAX_NAME = 64, PIECE = 65536 };

static unsigned char block[BLOCK + PERIOD];
static char cancelled[MAX_SEEN][MAX_NAME], seen[MAX_SEEN][MAX_NAME];
static int cancelled_count, seen_count;

/* What is going on in an exchange that is not answered at once. */
typedef struct work {
	pilotlight_exchange *x;
	pilotlight_timer *timer;
	char id[MAX_NAME];
	long left, ms, count, done, held, sent;
	sha256 hash;
	char *bytes;
	size_t room, length;
} work;

static int knows(char list[][MAX_NAME], int count, const char *name) {
	for (int i = 0; i < count; i++)
		if (!strcmp(list[i], name)) return 1;
	return 0;
}

static void remember(char list[][MAX_NAME], int *count, const char *name) {
	if (*count < MAX_SEEN) snprintf(list[(*count)++], MAX_NAME, "%s", name);
}

/* The value of `name` in the query, up to the next &. */
static const char *query(const pilotlight_exchange *x, const char *name, char value[MAX_NAME]) {
	const char *p = strchr(pilotlight_target(x), '?');
	size_t length = strlen(name);
	value[0] = 0;
	for (; p; p = strchr(p + 1, '&'))
		if (!strncmp(p + 1, name, length) && p[1 + length] == '=') {
			snprintf(value, MAX_NAME, "%.*s", (int)strcspn(p + 2 + length, "&"), p + 2 + length);
			break;
		}
	return value;
}

static long number(const pilotlight_exchange *x, const char *name) {
	char value[MAX_NAME];
	return strtol(query(x, name, value), NULL, 10);
}

static void text(pilotlight_exchange *x, int status, const char *body) {
	pilotlight_answer(x, status, "text/plain", body, strlen(body));
}

static void json(pilotlight_exchange *x, const char *body) {
	pilotlight_answer(x, 200, "application/json", body, strlen(body));
}

static void drop(void *data) {
	work *w = data;
	if (w->timer) pilotlight_stop_timer(w->timer);
	free(w->bytes);
	free(w);
}

static work *begin(pilotlight_exchange *x) {
	work *w = calloc(1, sizeof *w);
	if (!w) {
		pilotlight_reset(x, PILOTLIGHT_INTERNAL, 0, "out of memory");
		return NULL;
	}
	w->x = x;
	pilotlight_set_data(x, w);
	pilotlight_on_cancel(x, drop);
	return w;
}

static void later(work *w, unsigned ms, pilotlight_callback callback) {
	w->timer = pilotlight_after(ms, callback, w);
	if (w->timer) return;
	pilotlight_reset(w->x, PILOTLIGHT_INTERNAL, 0, "out of memory");
	drop(w);
}

static void echo_answer(work *w) {
	pilotlight_exchange *x = w->x;
	for (size_t i = 0; i < pilotlight_field_count(x); i++) {
		const char *name = pilotlight_field_name(x, i);
		if (!strcmp(name, "content-type") || !strncmp(name, "x-echo-", 7)) pilotlight_header(x, name, pilotlight_field_value(x, i));
	}
	pilotlight_header(x, "x-method", pilotlight_method(x));
	pilotlight_header(x, "x-target", pilotlight_target(x));
	/* It is not more than a frame has: others are reset. */
	if (pilotlight_write(x, w->bytes, w->length) == (long)w->length) pilotlight_end(x);
	else pilotlight_reset(x, PILOTLIGHT_TOO_LARGE, 0, "too much for an echo");
	drop(w);
}

static void echo_read(void *data) {
	work *w = data;
	long n;
	do {
		if (w->room - w->length < PIECE) {
			char *larger = realloc(w->bytes, w->room + PIECE);
			if (!larger) {
				pilotlight_reset(w->x, PILOTLIGHT_INTERNAL, 0, "out of memory");
				drop(w);
				return;
			}
			w->bytes = larger;
			w->room += PIECE;
		}
		n = pilotlight_read(w->x, w->bytes + w->length, w->room - w->length);
		if (n > 0) w->length += (size_t)n;
	} while (n > 0);
	if (n == 0) echo_answer(w);
}

static void upload_read(void *data) {
	static char piece[PIECE];
	work *w = data;
	char hex[65], body[160];
	long n;
	while ((n = pilotlight_read(w->x, piece, sizeof piece)) > 0) {
		sha256_add(&w->hash, piece, (size_t)n);
		w->done += n;
	}
	if (n < 0) return;
	sha256_end(&w->hash, hex);
	snprintf(body, sizeof body, "{\"bytes\":%ld,\"sha256\":\"%s\"}", w->done, hex);
	json(w->x, body);
	drop(w);
}

static void download_write(void *data) {
	work *w = data;
	while (w->left > 0) {
		size_t size = w->left < BLOCK ? (size_t)w->left : BLOCK;
		long n = pilotlight_write(w->x, block + w->done % PERIOD, size);
		if (n < 0) return; /* cancelled: drop follows */
		w->left -= n;
		w->done += n;
		if ((size_t)n < size) return;
	}
	pilotlight_end(w->x);
	drop(w);
}

static void slow_chunk(void *data) {
	work *w = data;
	char line[32];
	w->timer = NULL;
	if (w->count-- > 0) {
		int length = snprintf(line, sizeof line, "chunk %ld\n", w->done++);
		pilotlight_write(w->x, line, (size_t)length);
		pilotlight_flush(w->x);
	}
	if (w->count > 0) {
		later(w, (unsigned)w->ms, slow_chunk);
		return;
	}
	pilotlight_end(w->x);
	drop(w);
}

static void wait_tick(void *data) {
	work *w = data;
	w->timer = NULL;
	pilotlight_write(w->x, "tick\n", 5);
	pilotlight_flush(w->x);
	later(w, TICK_MS, wait_tick);
}

static void wait_cancelled(void *data) {
	work *w = data;
	remember(cancelled, &cancelled_count, w->id);
	drop(w);
}

static void slept(void *data) {
	work *w = data;
	w->timer = NULL;
	text(w->x, 200, "slept");
	drop(w);
}

static void flood(pilotlight_exchange *x) {
	static char lines[64000];
	char body[64];
	long bytes = number(x, "bytes");
	for (size_t i = 0; i < sizeof lines; i++) lines[i] = i % 100 == 99 ? '\n' : 'x';
	for (long left = bytes; left > 0;) {
		ssize_t n = write(STDOUT_FILENO, lines, left < (long)sizeof lines ? (size_t)left : sizeof lines);
		if (n <= 0) break;
		left -= n;
	}
	snprintf(body, sizeof body, "{\"flooded\":%ld}", bytes);
	json(x, body);
}

static void refuse_once(pilotlight_exchange *x) {
	const char *once = pilotlight_field(x, "x-once");
	if (!once) once = "";
	if (knows(seen, seen_count, once)) {
		text(x, 200, "taken");
		return;
	}
	remember(seen, &seen_count, once);
	pilotlight_reset(x, PILOTLIGHT_REFUSED, 0, "the first time");
}

/* Sends back the bytes of the other protocol that come. */
static void switched(void *data) {
	work *w = data;
	for (;;) {
		while (w->sent < w->held) {
			long n = pilotlight_write(w->x, w->bytes + w->sent, (size_t)(w->held - w->sent));
			if (n <= 0) return;
			w->sent += n;
		}
		w->sent = w->held = 0;
		long n = pilotlight_read(w->x, w->bytes, PIECE);
		if (n < 0) return;
		if (n == 0) {
			pilotlight_end(w->x);
			drop(w);
			return;
		}
		w->held = n;
	}
}

static void switch_and_echo(pilotlight_exchange *x) {
	const char *offer = pilotlight_offer(x);
	char protocol[MAX_NAME];
	if (!offer) {
		text(x, 426, "upgrade required\n");
		return;
	}
	work *w = begin(x);
	if (!w) return;
	w->bytes = malloc(PIECE);
	snprintf(protocol, sizeof protocol, "%.*s", (int)strcspn(offer, ", "), offer);
	pilotlight_on_readable(x, switched);
	pilotlight_on_writable(x, switched);
	if (!w->bytes || pilotlight_upgrade(x, protocol) != PILOTLIGHT_OK) {
		pilotlight_reset(x, PILOTLIGHT_OVERLOADED, 1000, "no room");
		drop(w);
	}
}

static void big_header(pilotlight_exchange *x) {
	size_t size = (size_t)number(x, "bytes");
	char *value = malloc(size + 1);
	if (value) {
		memset(value, 'b', size);
		value[size] = 0;
		pilotlight_header(x, "x-big", value);
		free(value);
	}
	pilotlight_end(x);
}

static void deadline(pilotlight_exchange *x) {
	char body[64];
	int64_t left = pilotlight_deadline_ms(x);
	if (left < 0) snprintf(body, sizeof body, "{\"deadline_ms\":null}");
	else snprintf(body, sizeof body, "{\"deadline_ms\":%" PRId64 "}", left);
	json(x, body);
}

static int is(const pilotlight_exchange *x, const char *path) {
	const char *target = pilotlight_target(x);
	size_t length = strlen(path);
	return !strncmp(target, path, length) && (target[length] == 0 || target[length] == '?');
}

/* The handlers that go on after they have returned. */
static int goes_on(pilotlight_exchange *x) {
	work *w;
	if (!strncmp(pilotlight_target(x), "/echo", 5)) {
		if (!(w = begin(x))) return 1;
		pilotlight_on_readable(x, echo_read);
		echo_read(w);
	} else if (is(x, "/upload")) {
		if (!(w = begin(x))) return 1;
		sha256_start(&w->hash);
		pilotlight_on_readable(x, upload_read);
		upload_read(w);
	} else if (is(x, "/download")) {
		char length[32];
		if (!(w = begin(x))) return 1;
		w->left = number(x, "bytes");
		snprintf(length, sizeof length, "%ld", w->left);
		pilotlight_header(x, "content-type", "application/octet-stream");
		pilotlight_header(x, "content-length", length);
		pilotlight_on_writable(x, download_write);
		download_write(w);
	} else if (is(x, "/slow")) {
		if (!(w = begin(x))) return 1;
		w->count = number(x, "chunks");
		w->ms = number(x, "ms");
		slow_chunk(w);
	} else if (is(x, "/wait")) {
		if (!(w = begin(x))) return 1;
		query(x, "id", w->id);
		pilotlight_on_cancel(x, wait_cancelled);
		wait_tick(w);
	} else if (is(x, "/sleep")) {
		if ((w = begin(x))) later(w, (unsigned)number(x, "ms"), slept);
	} else {
		return 0;
	}
	return 1;
}

static void handle(pilotlight_exchange *x, void *context) {
	char body[64], id[MAX_NAME];
	(void)context;
	if (goes_on(x)) return;
	if (is(x, "/cancelled")) json(x, knows(cancelled, cancelled_count, query(x, "id", id)) ? "{\"cancelled\":true}" : "{\"cancelled\":false}");
	else if (is(x, "/crash")) _exit(3);
	else if (is(x, "/flood")) flood(x);
	else if (is(x, "/status")) {
		pilotlight_status(x, (int)number(x, "code"));
		pilotlight_end(x);
	} else if (is(x, "/cookies")) {
		pilotlight_header(x, "set-cookie", "a=1");
		pilotlight_header(x, "set-cookie", "b=2");
		pilotlight_end(x);
	} else if (is(x, "/deadline")) deadline(x);
	else if (is(x, "/pid")) {
		snprintf(body, sizeof body, "{\"pid\":%ld}", (long)getpid());
		json(x, body);
	} else if (is(x, "/early")) text(x, 413, "too large\n");
	else if (is(x, "/trailers")) {
		pilotlight_header(x, "trailer", "x-trailer");
		pilotlight_write(x, "body", 4);
		pilotlight_add_trailer(x, "x-trailer", "yes");
		pilotlight_end(x);
	} else if (is(x, "/error")) pilotlight_reset(x, PILOTLIGHT_INTERNAL, 0, "asked for by /error");
	else if (is(x, "/refuse")) refuse_once(x);
	else if (is(x, "/switch")) switch_and_echo(x);
	else if (is(x, "/big-header")) big_header(x);
	else text(x, 404, "not found\n");
}

int main(void) {
	for (int i = 0; i < BLOCK + PERIOD; i++) block[i] = (unsigned char)((i * 31 + 7) % PERIOD);
	return pilotlight_serve(handle, NULL);
}
