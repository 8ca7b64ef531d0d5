/* Keeps many connections busy with one request each, and counts the answers.
 *
 *   load ADDRESS CONNECTIONS SECONDS FILE ANSWER_BYTES PREFIX_BYTES [OFFSET ...]
 *
 * ADDRESS is a port of 127.0.0.1, or with a slash in it the path of a Unix socket. FILE holds
 * a request as it goes over the wire. An answer has ANSWER_BYTES, or if that is 0, is
 * HTTP/1.1, status 200, with a Content-Length. PREFIX_BYTES of the file are sent once, at the
 * connection's beginning. At each OFFSET of the file are 16 hex digits, which are other ones
 * in each request. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 8192, SCRATCH_BYTES = 1 << 20, EVENTS = 64, DIGITS = 16 };

struct connection {
    int fd;
    size_t sent;     /* of the request */
    size_t received; /* of the answer */
    size_t expected; /* bytes of the answer, head and all; 0: not known yet */
    double began;
    char *request; /* its own where requests differ, else everybody's */
    char head[HEAD_BYTES + 1];
};

static char *request;
static size_t request_bytes, answer_bytes;
static char scratch[SCRATCH_BYTES];
static double *latencies;
static size_t answered, room;
static size_t *offsets; /* of what is another in each request */
static int offset_count;

static void fail(const char *what)
{
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_request(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        fail(path);
    request_bytes = (size_t)ftell(file);
    rewind(file);
    char *memory = malloc(request_bytes);
    if (!memory || fread(memory, 1, request_bytes, file) != request_bytes)
        fail(path);
    fclose(file);
    request = memory;
}

static int connected(int family, const void *address, socklen_t bytes)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, address, bytes))
        fail("connect");
    return fd;
}

static int connect_to(const char *where)
{
    if (strchr(where, '/')) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (strlen(where) >= sizeof address.sun_path)
            fail("the socket's path is too long");
        strcpy(address.sun_path, where);
        return connected(AF_UNIX, &address, sizeof address);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(where))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, fd = connected(AF_INET, &address, sizeof address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void open_connection(struct connection *c, const char *where, size_t prefix_bytes)
{
    c->fd = connect_to(where);
    if (prefix_bytes && send(c->fd, request, prefix_bytes, 0) != (ssize_t)prefix_bytes)
        fail("send");
    c->request = request;
    if (offset_count) {
        c->request = malloc(request_bytes);
        if (!c->request)
            fail("malloc");
        memcpy(c->request, request, request_bytes);
    }
}

/* Digits that look random, as ids do (splitmix64), and do not come again. */
static void renumber(struct connection *c)
{
    static uint64_t state;
    if (!state)
        state = (uint64_t)(now() * 1e9);
    for (int i = 0; i < offset_count; i++) {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        char digits[DIGITS + 1];
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        snprintf(digits, sizeof digits, "%016" PRIx64, z ^ (z >> 31));
        memcpy(c->request + offsets[i], digits, DIGITS);
    }
}

/* Sends what the socket takes; what it does not waits for its event. */
static void send_more(struct connection *c)
{
    while (c->sent < request_bytes) {
        ssize_t n = send(c->fd, c->request + c->sent, request_bytes - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            fail("send");
        c->sent += (size_t)n;
    }
}

static void begin(struct connection *c, size_t prefix_bytes)
{
    c->sent = prefix_bytes;
    c->received = 0;
    c->expected = answer_bytes;
    renumber(c);
    c->began = now();
    send_more(c);
}

/* The length of the whole answer, once its head is there. */
static void read_head(struct connection *c)
{
    c->head[c->received < HEAD_BYTES ? c->received : HEAD_BYTES] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) {
        if (c->received >= HEAD_BYTES)
            fail("the answer's head is too long");
        return;
    }
    if (strncmp(c->head, "HTTP/1.1 200", 12))
        fail(c->head);
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    if (!length || length > end)
        fail("the answer has no Content-Length");
    c->expected = (size_t)(end + 4 - c->head) + strtoull(length + 17, NULL, 10);
}

static void note(double seconds)
{
    if (answered == room) {
        room = room ? 2 * room : 1 << 16;
        latencies = realloc(latencies, room * sizeof *latencies);
        if (!latencies)
            fail("realloc");
    }
    latencies[answered++] = seconds;
}

/* Receives what is there; whether the answer is whole. */
static int receive_more(struct connection *c)
{
    for (;;) {
        char *memory = scratch;
        size_t bytes = SCRATCH_BYTES;
        if (!c->expected) {
            memory = c->head + c->received;
            bytes = HEAD_BYTES - c->received;
        }
        ssize_t n = recv(c->fd, memory, bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            fail("the server hung up");
        c->received += (size_t)n;
        if (!c->expected)
            read_head(c);
        if (c->expected && c->received >= c->expected)
            return 1;
    }
}

/* Says how far each request came: what stands still is seldom the same thing. */
static void stalled(const struct connection *connections, int count)
{
    for (int i = 0; i < count; i++) {
        const struct connection *c = &connections[i];
        fprintf(stderr, "load: connection %d: sent %zu of %zu bytes, received %zu of %zu, %.1f s\n",
                i, c->sent, request_bytes, c->received, c->expected, now() - c->began);
    }
    errno = 0;
    fail("no answer for five seconds");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 7)
        fail("load ADDRESS CONNECTIONS SECONDS FILE ANSWER_BYTES PREFIX_BYTES [OFFSET ...]");
    int count = atoi(argv[2]);
    double seconds = atof(argv[3]);
    read_request(argv[4]);
    answer_bytes = strtoull(argv[5], NULL, 10);
    size_t prefix_bytes = strtoull(argv[6], NULL, 10);
    offset_count = argc - 7;
    offsets = calloc((size_t)argc, sizeof *offsets);
    for (int i = 0; offsets && i < offset_count; i++) {
        offsets[i] = strtoull(argv[7 + i], NULL, 10);
        if (offsets[i] + DIGITS > request_bytes)
            fail("an offset is beyond the request");
    }
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || !offsets || poller < 0)
        fail("epoll");
    for (int i = 0; i < count; i++) {
        open_connection(&connections[i], argv[1], prefix_bytes);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                    .data.ptr = &connections[i]};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event))
            fail("epoll_ctl");
    }
    double start = now(), end = start + seconds, last = start;
    for (int i = 0; i < count; i++)
        begin(&connections[i], prefix_bytes);
    while (last < end) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, 5000);
        if (ready == 0)
            stalled(connections, count);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            send_more(c);
            while (receive_more(c)) {
                note(now() - c->began);
                begin(c, prefix_bytes);
            }
        }
        last = now();
    }
    if (!answered)
        fail("no answer");
    qsort(latencies, answered, sizeof *latencies, by_size);
    printf("{\"requests\": %zu, \"seconds\": %.6f, \"p50\": %.9f, \"p99\": %.9f}\n", answered,
           last - start, latencies[answered / 2], latencies[answered * 99 / 100]);
    return 0;
}
