/* Processor time of a service per exchange: this SDK against FastCGI by libfcgi, over a Unix socket, and what a cold
 * start takes until the first answer. Rounds alternate: read the ratios. Usage:
 * bench FOLDER [SECONDS] [ROUNDS] [STARTS]; FOLDER has service-pipe and service-fastcgi. FastCGI is measured in its two ways: a connection for each request, 64 of them
 * wanted at once, as most servers do it; and one connection that is kept, which libfcgi answers one by one. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FLIGHT = 64, WARM_UP_MS = 500 };
enum way { FASTCGI_NEW, FASTCGI_KEPT, PIPE };

static const double ONE_ANSWER = 1e18; /* seconds: for as long as that takes */
static const char *const names[] = {"FastCGI, connection each", "FastCGI, one kept", "pipe, shared"};
static char folder[256], path[300];

static void check(int good, const char *what) {
	if (good) return;
	perror(what);
	exit(1);
}

static double seconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double processor_seconds(pid_t pid) {
	char name[64], text[1024];
	unsigned long user, system;
	snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);
	FILE *file = fopen(name, "r");
	check(file != NULL, name);
	size_t n = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[n] = 0;
	check(sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2, "stat");
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static struct sockaddr_un address(void) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof a.sun_path, "%.100s", path);
	return a;
}

static int listener(void) {
	struct sockaddr_un a = address();
	unlink(path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	check(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 256) == 0, path);
	return fd;
}

static pid_t start(enum way way, int fd) {
	pid_t pid = fork();
	check(pid >= 0, "fork");
	if (pid) return pid;
	char program[300];
	snprintf(program, sizeof program, "%.250s/service-%s", folder, way == PIPE ? "pipe" : "fastcgi");
	if (way == PIPE) {
		setenv("PILOTLIGHT_SOCKET", path, 1);
		setenv("PILOTLIGHT_TOKEN", "00000000000000000000000000000000", 1);
	} else {
		dup2(fd, 0);
	}
	close(fd);
	execl(program, program, (char *)NULL);
	_exit(127);
}

static void send_all(int fd, const char *bytes, size_t length) {
	while (length) {
		ssize_t n = write(fd, bytes, length);
		check(n > 0, "write");
		bytes += n;
		length -= (size_t)n;
	}
}

/* ---- the pipe ---- */

static size_t pipe_frame(char *to, int type, int flags, unsigned id, const char *payload, uint32_t length) {
	memcpy(to, &length, 4); /* a little-endian machine */
	to[4] = (char)type;
	to[5] = (char)flags;
	to[6] = (char)id;
	to[7] = (char)(id >> 8);
	memcpy(to + 8, payload, length);
	return 8 + length;
}

static size_t pipe_request(char *to, unsigned id) {
	static const char head[] = "GET\0http\0test.local\0/user/42\0HTTP/1.1\000127.0.0.1:5000\0req-1\0user-agent\0bench\0accept\0*/*\0"
	                           "accept-encoding\0gzip, br\0x-forwarded-for\000127.0.0.1";
	char payload[8 + sizeof head] = {0};
	uint32_t length = sizeof head;
	memcpy(payload, &length, 4);
	memcpy(payload + 8, head, sizeof head);
	return pipe_frame(to, 3, 1, id, payload, sizeof payload);
}

/* Sends a request for each answer, all of a read in one write, until `until`, or one answer if `flight` is 1. */
static long drive_pipe(int fd, int flight, double until, char *in, size_t *end, char *out) {
	long count = 0;
	while (seconds() < until) {
		ssize_t n = read(fd, in + *end, (1 << 20) - *end);
		check(n > 0, "read");
		*end += (size_t)n;
		size_t at = 0, length = 0;
		uint32_t size;
		for (; *end - at >= 8 && (memcpy(&size, in + at, 4), *end - at >= 8 + size); at += 8 + size) {
			if (in[at + 4] != 4) continue;
			count++;
			length += pipe_request(out + length, (unsigned char)in[at + 6] | (unsigned)(unsigned char)in[at + 7] << 8);
		}
		memmove(in, in + at, *end -= at);
		if (flight == 1 && count) return count;
		send_all(fd, out, length);
	}
	return count;
}

/* ---- FastCGI ---- */

static size_t record(char *to, int type, const char *payload, size_t length) {
	const char header[8] = {1, (char)type, 0, 1, (char)(length >> 8), (char)length, 0, 0};
	memcpy(to, header, 8);
	if (length) memcpy(to + 8, payload, length);
	return 8 + length;
}

static size_t fastcgi_request(char *to, int kept) {
	static const char *const fields[] = {"REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_URI", "/user/42",
		"HTTP_HOST", "test.local", "HTTP_USER_AGENT", "bench", "HTTP_ACCEPT", "*/*", "HTTP_ACCEPT_ENCODING", "gzip, br",
		"HTTP_X_FORWARDED_FOR", "127.0.0.1", "REMOTE_ADDR", "127.0.0.1", "HTTP_X_REQUEST_ID", "req-1"};
	char params[1024];
	size_t length = 0, at;
	const char begin[8] = {0, 1, (char)kept};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i += 2) {
		size_t n = strlen(fields[i]), v = strlen(fields[i + 1]);
		params[length++] = (char)n;
		params[length++] = (char)v;
		memcpy(params + length, fields[i], n);
		memcpy(params + length + n, fields[i + 1], v);
		length += n + v;
	}
	at = record(to, 1, begin, 8);
	at += record(to + at, 4, params, length);
	at += record(to + at, 4, NULL, 0);
	return at + record(to + at, 5, NULL, 0);
}

static int fastcgi_connect(int kept) {
	char request[2048];
	struct sockaddr_un a = address();
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	check(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect");
	send_all(fd, request, fastcgi_request(request, kept));
	return fd;
}

/* Whether what was read ends with END_REQUEST. */
static int is_whole(const char *in, size_t end) {
	for (size_t at = 0; end - at >= 8; at += 8 + ((size_t)(unsigned char)in[at + 4] << 8 | (unsigned char)in[at + 5]) + (unsigned char)in[at + 6])
		if (in[at + 1] == 3) return end - at >= 16;
	return 0;
}

static long drive_fastcgi(struct pollfd *fds, int flight, int kept, double until) {
	static char parts[FLIGHT][4096];
	static size_t ends[FLIGHT];
	char request[2048];
	size_t length = fastcgi_request(request, kept);
	long count = 0;
	memset(ends, 0, sizeof ends);
	while (seconds() < until) {
		check(poll(fds, (nfds_t)flight, 1000) > 0, "poll");
		for (int i = 0; i < flight; i++) {
			if (!fds[i].revents) continue;
			ssize_t n = read(fds[i].fd, parts[i] + ends[i], sizeof parts[i] - ends[i]);
			check(n >= 0, "read");
			ends[i] += (size_t)n;
			if (!is_whole(parts[i], ends[i])) continue;
			ends[i] = 0;
			count++;
			if (flight == 1 && until >= ONE_ANSWER) return count;
			if (kept) {
				send_all(fds[i].fd, request, length);
			} else {
				close(fds[i].fd);
				fds[i].fd = fastcgi_connect(0);
			}
		}
	}
	return count;
}

/* ---- measurements ---- */

static double warm(enum way way, double for_s, double *rate) {
	static char in[1 << 20], out[1 << 18];
	struct pollfd fds[FLIGHT];
	int fd = listener(), flight = way == FASTCGI_KEPT ? 1 : FLIGHT, conn = -1;
	pid_t pid = start(way, fd);
	size_t end = 0, length = 0;
	if (way == PIPE) {
		conn = accept(fd, NULL, NULL);
		length = pipe_frame(out, 2, 0, 0, "PIPE/1\nworker=1\nmax_frame=65536\n", 32);
		for (int id = 1; id <= FLIGHT; id++) length += pipe_request(out + length, (unsigned)id);
		send_all(conn, out, length);
	} else {
		for (int i = 0; i < flight; i++) fds[i] = (struct pollfd){.fd = fastcgi_connect(way == FASTCGI_KEPT), .events = POLLIN};
	}
	double cpu = 0;
	long count = 0;
	for (int turn = 0; turn < 2; turn++) { /* the first one warms up */
		double until = seconds() + (turn ? for_s : WARM_UP_MS / 1e3), before = processor_seconds(pid);
		if (way == PIPE) count = drive_pipe(conn, flight, until, in, &end, out);
		else count = drive_fastcgi(fds, flight, way == FASTCGI_KEPT, until);
		cpu = processor_seconds(pid) - before;
	}
	*rate = (double)count / for_s;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; way != PIPE && i < flight; i++) close(fds[i].fd);
	if (conn >= 0) close(conn);
	close(fd);
	return cpu * 1e6 / (double)count;
}

/* Milliseconds until the first answer, and of processor time until then. */
static double cold(enum way way, double *cpu) {
	static char in[1 << 20], out[1 << 18];
	struct rusage used;
	int fd = listener(), conn;
	double begin = seconds();
	pid_t pid = start(way, fd);
	size_t end = 0;
	if (way == PIPE) {
		conn = accept(fd, NULL, NULL);
		size_t length = pipe_frame(out, 2, 0, 0, "PIPE/1\nworker=1\nmax_frame=65536\n", 32);
		send_all(conn, out, length + pipe_request(out + length, 1));
		drive_pipe(conn, 1, ONE_ANSWER, in, &end, out);
	} else {
		struct pollfd one = {.fd = conn = fastcgi_connect(0), .events = POLLIN};
		drive_fastcgi(&one, 1, 0, ONE_ANSWER);
	}
	double wall = (seconds() - begin) * 1e3;
	kill(pid, SIGKILL);
	wait4(pid, NULL, 0, &used);
	close(conn);
	close(fd);
	*cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
	return wall;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int count) {
	qsort(values, (size_t)count, sizeof *values, ascending);
	return values[count / 2];
}

int main(int argc, char **argv) {
	enum { MAX = 100 };
	static double ratios[3][MAX], walls[3][MAX], cpus[3][MAX];
	if (argc < 2) return 2;
	snprintf(folder, sizeof folder, "%s", argv[1]);
	snprintf(path, sizeof path, "/tmp/pilotlight-bench-%ld", (long)getpid());
	double for_s = argc > 2 ? atof(argv[2]) : 2;
	int rounds = argc > 3 ? atoi(argv[3]) : 5, starts = argc > 4 ? atoi(argv[4]) : 50;
	if (rounds < 1 || rounds > MAX || starts < 1 || starts > MAX) return 2;
	for (int round = 0; round < rounds; round++) {
		double base = 0, rate;
		for (int way = FASTCGI_NEW; way <= PIPE; way++) {
			double us = warm((enum way)way, for_s, &rate);
			if (way == FASTCGI_NEW) base = us;
			ratios[way][round] = us / base;
			printf("round %d  %-25s %6.2f us/exchange %7.0f/s  %.2f\n", round + 1, names[way], us, rate, us / base);
			fflush(stdout);
		}
	}
	for (int i = 0; i < starts; i++)
		for (int way = FASTCGI_NEW; way <= PIPE; way += 2) walls[way][i] = cold((enum way)way, &cpus[way][i]);
	for (int way = FASTCGI_NEW; way <= PIPE; way++) printf("median   %-25s %.2f\n", names[way], median(ratios[way], rounds));
	for (int way = FASTCGI_NEW; way <= PIPE; way += 2)
		printf("cold     %-25s %.2f ms to the first answer, %.2f ms of processor time\n", names[way], median(walls[way], starts), median(cpus[way], starts));
	unlink(path);
	return 0;
}
