/* An HTTP/1.1 server without any library, to be linked statically: all that is in the tests' images.
 *
 * Environment: PORT (8080); AFTER_MS: listens so late; DIES: exits with this status instead; DEAF: ignores SIGTERM.
 * Paths: /exit/N exits with status N; /slow/MS answers so late; /env/NAME; /touch makes the file that `healthy` looks
 * for; /who: "NAME INSTANCE", the name from the environment; anything else: "hello from INSTANCE".
 * Argument `healthy`: exits with 0 if /tmp/healthy is there, for a health check. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int number(const char *name, int or) {
    const char *text = getenv(name);
    return text ? atoi(text) : or;
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

static const char *instance(void) {
    const char *text = getenv("PILOTLIGHT_INSTANCE");
    return text ? text : "nobody";
}

static void answer(int client, const char *body) {
    char text[4096];
    int length = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                          strlen(body), body);
    if (write(client, text, length) < 0) perror("write");
}

static void handle(int client, char *path) {
    char body[1024];
    if (!strncmp(path, "/exit/", 6)) {
        printf("exits\n");
        _exit(atoi(path + 6));
    }
    if (!strncmp(path, "/slow/", 6)) usleep(atoi(path + 6) * 1000);
    if (!strncmp(path, "/touch", 6)) close(open("/tmp/healthy", O_CREAT | O_WRONLY, 0600));
    if (!strncmp(path, "/env/", 5)) {
        const char *value = getenv(path + 5);
        snprintf(body, sizeof body, "%s\n", value ? value : "(none)");
    } else if (!strcmp(path, "/who")) {
        const char *name = getenv("NAME");
        snprintf(body, sizeof body, "%s %s\n", name ? name : "(none)", instance());
    } else {
        snprintf(body, sizeof body, "hello from %s\n", instance());
    }
    answer(client, body);
}

static void *serve(void *argument) {
    int client = (int)(long)argument;
    char head[8192];
    int have = 0;
    for (;;) {
        char *stop;
        head[have] = 0;
        while (!(stop = strstr(head, "\r\n\r\n"))) {
            int count = read(client, head + have, sizeof head - 1 - have);
            if (count <= 0) {
                close(client);
                return NULL;
            }
            have += count;
            head[have] = 0;
        }
        char path[256] = "/";
        sscanf(head, "%*s %255s", path);
        int used = stop + 4 - head;
        memmove(head, head + used, have -= used);
        handle(client, path);
    }
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "healthy")) return access("/tmp/healthy", F_OK) ? 1 : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, number("DEAF", 0) ? SIG_IGN : end);
    printf("begins\n");
    fprintf(stderr, "a word to standard error\n");
    if (getenv("DIES")) return number("DIES", 0);
    usleep(number("AFTER_MS", 0) * 1000);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(number("PORT", 8080))};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        long client = accept(listener, NULL, NULL);
        pthread_t thread;
        if (client >= 0 && !pthread_create(&thread, NULL, serve, (void *)client)) pthread_detach(thread);
    }
}
