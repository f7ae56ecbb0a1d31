/* The service of test_c.py: each target uses a part of the API. With FAIL_AT=n the n-th allocation of the SDK fails. */
#define _POSIX_C_SOURCE 200809L
#include "../pilotlight.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long allocations, fail_at = -1;

/* What pilotlight.c is compiled with in the place of the C library's. */
void *test_malloc(size_t size);
void *test_calloc(size_t count, size_t size);
void *test_realloc(void *bytes, size_t size);
void *test_malloc(size_t size) { return ++allocations == fail_at ? NULL : malloc(size); }
void *test_calloc(size_t count, size_t size) { return ++allocations == fail_at ? NULL : calloc(count, size); }
void *test_realloc(void *bytes, size_t size) { return ++allocations == fail_at ? NULL : realloc(bytes, size); }

static void text(pilotlight_exchange *x, const char *body) {
	if (pilotlight_answer(x, 200, "text/plain", body, strlen(body)) == PILOTLIGHT_MEMORY) pilotlight_reset(x, PILOTLIGHT_INTERNAL, 0, "memory");
}

static void show(pilotlight_exchange *x) {
	char body[512];
	size_t size;
	const void *bytes = pilotlight_body(x, &size);
	const char *missing = pilotlight_field(x, "x-missing"), *a = pilotlight_field(x, "x-a");
	snprintf(body, sizeof body, "%s|%s|%s|%s|%s|%s|%s|%zu|%s|%s|%s|%.*s|%d", pilotlight_method(x), pilotlight_scheme(x),
	         pilotlight_authority(x), pilotlight_target(x), pilotlight_protocol(x), pilotlight_peer(x), pilotlight_request_id(x),
	         pilotlight_field_count(x), a ? a : "", pilotlight_field_value(x, 1) ? pilotlight_field_value(x, 1) : "",
	         missing ? missing : "none", (int)size, bytes ? (const char *)bytes : "", (int)(pilotlight_deadline_ms(x) / 1000));
	text(x, body);
}

static void misuse(pilotlight_exchange *x) {
	static char huge[70000];
	char body[128];
	memset(huge, 'x', sizeof huge - 1);
	int results[] = {pilotlight_status(x, 50), pilotlight_header(x, "bad name", ""), pilotlight_header(x, "", ""),
		pilotlight_header(x, "x-huge", huge), pilotlight_info(x, 200), pilotlight_upgrade(x, "echo"),
		pilotlight_answer(x, 200, NULL, huge, sizeof huge)};
	size_t at = 0;
	for (size_t i = 0; i < sizeof results / sizeof *results; i++) at += (size_t)snprintf(body + at, sizeof body - at, "%d ", results[i]);
	text(x, body);
}

static void fields(pilotlight_exchange *x) {
	pilotlight_header(x, "X-Upper", "a\r\nb");
	pilotlight_header(x, "Connection", "close");
	pilotlight_header(x, "Transfer-Encoding", "chunked");
	pilotlight_status(x, 201);
	pilotlight_end(x);
}

/* Reads a streamed body to its end and answers with its size and its trailer. */
static size_t body_size;

static void count(void *data) {
	pilotlight_exchange *x = data;
	char piece[1000], body[64];
	long n;
	while ((n = pilotlight_read(x, piece, sizeof piece)) > 0) body_size += (size_t)n;
	if (n == PILOTLIGHT_AGAIN) return;
	if (n < 0) {
		pilotlight_reset(x, PILOTLIGHT_CANCELLED, 0, "gone");
		return;
	}
	const char *sum = pilotlight_trailer(x, "x-sum");
	snprintf(body, sizeof body, "%zu %s", body_size, sum ? sum : "none");
	body_size = 0;
	text(x, body);
}

static void from_thread(void *data) { text(data, "posted"); }

static void *thread(void *data) {
	while (pilotlight_post(from_thread, data) == PILOTLIGHT_AGAIN) {}
	return NULL;
}

static void start_thread(pilotlight_exchange *x) {
	pthread_t id;
	if (pthread_create(&id, NULL, thread, x)) pilotlight_reset(x, PILOTLIGHT_INTERNAL, 0, "no thread");
	else pthread_detach(id);
}

/* Writes 1,000,000 bytes as the socket takes them; the largest number that was taken at once goes into a trailer. */
static long left, most;

static void write_more(void *data) {
	static char bytes[1000000];
	pilotlight_exchange *x = data;
	char number[32];
	long n = pilotlight_write(x, bytes, (size_t)left);
	if (n < 0) {
		pilotlight_reset(x, PILOTLIGHT_INTERNAL, 0, "memory, or gone");
		return;
	}
	left -= n;
	if (n > most) most = n;
	if (left) return;
	snprintf(number, sizeof number, "%ld", most);
	pilotlight_add_trailer(x, "x-most", number);
	pilotlight_end(x);
}

static void end_it(void *data) { pilotlight_end(data); }
static pilotlight_exchange *kept;

static void echo(void *data) {
	static char held[4096];
	static long length, sent;
	pilotlight_exchange *x = data;
	for (;;) {
		while (sent < length) {
			long n = pilotlight_write(x, held + sent, (size_t)(length - sent));
			if (n < 0) { /* the peer has gone: the exchange is still ours to end */
				length = sent = 0;
				pilotlight_reset(x, PILOTLIGHT_CANCELLED, 0, "gone");
				return;
			}
			if (n == 0) return;
			sent += n;
		}
		sent = 0;
		length = pilotlight_read(x, held, sizeof held);
		if (length > 0) continue;
		if (length == 0) pilotlight_end(x);
		else if (length != PILOTLIGHT_AGAIN) pilotlight_reset(x, PILOTLIGHT_CANCELLED, 0, "gone");
		length = 0;
		return;
	}
}

static void upgrade(pilotlight_exchange *x) {
	pilotlight_on_readable(x, echo);
	pilotlight_on_writable(x, echo);
	if (pilotlight_upgrade(x, "echo")) pilotlight_reset(x, PILOTLIGHT_OVERLOADED, 1500, "no room");
}

static void handle(pilotlight_exchange *x, void *context) {
	const char *target = pilotlight_target(x);
	pilotlight_set_data(x, x);
	if (!strcmp(target, "/misuse")) misuse(x);
	else if (!strcmp(target, "/fields")) fields(x);
	else if (!strcmp(target, "/count")) {
		pilotlight_on_readable(x, count);
		count(x);
	} else if (!strcmp(target, "/hints")) {
		pilotlight_header(x, "link", "</a.css>");
		pilotlight_info(x, 103);
		text(x, "hinted");
	} else if (!strcmp(target, "/thread")) start_thread(x);
	else if (!strcmp(target, "/large")) {
		left = 1000000;
		pilotlight_on_writable(x, write_more);
		write_more(x);
	} else if (!strcmp(target, "/log")) {
		pilotlight_log(x, PILOTLIGHT_WARN, "careful");
		text(x, "logged");
	} else if (!strcmp(target, "/keep")) kept = x;
	else if (!strcmp(target, "/end-kept")) {
		int result = pilotlight_end(kept);
		text(x, result == PILOTLIGHT_GONE ? "gone" : "there");
	} else if (!strcmp(target, "/end-in-cancel")) pilotlight_on_cancel(x, end_it);
	else if (!strcmp(target, "/overloaded")) pilotlight_reset(x, PILOTLIGHT_OVERLOADED, 1500, "too much");
	else if (!strcmp(target, "/refuse-late")) {
		pilotlight_write(x, "x", 1);
		pilotlight_flush(x);
		pilotlight_reset(x, PILOTLIGHT_REFUSED, 0, "too late");
	} else if (!strcmp(target, "/upgrade")) upgrade(x);
	else if (!strcmp(target, "/drain")) {
		pilotlight_drain();
		text(x, context);
	} else show(x);
}

int main(void) {
	char context[] = "context";
	pilotlight_settings settings = {.exchanges = 7, .max_own = 9000, .max_upgraded = 1};
	if (getenv("FAIL_AT")) fail_at = atol(getenv("FAIL_AT"));
	int result = pilotlight_serve_with(&settings, handle, context);
	if (getenv("FAIL_AT")) fprintf(stderr, "allocations: %ld\n", allocations);
	return result;
}
