/* Load generator: keeps connections busy with one request each, and counts what comes of it.
 *
 *   load ADDRESS CONNECTIONS SECONDS RATE FILE [RAW_BYTES PREFIX_BYTES [OFFSET ...]]
 *
 * ADDRESS is a port of 127.0.0.1, an IPv4 address and a port with a colon between them, or with a
 * slash in it the path of a Unix socket. RATE is requests a second of all connections together; at 0 each connection sends its next request as soon as it
 * has its response. FILE holds exchanges: two little-endian 64-bit lengths, a request as it goes
 * over the wire, and the body that a response with status 200 must have; an empty one is not
 * compared. Connections take the exchanges in turn. Refused senders stop sending, as HTTP clients
 * do that read while they write.
 *
 * With RAW_BYTES a response is that many bytes without a head. The first PREFIX_BYTES of a request
 * are sent once for each connection. At each OFFSET of the first request are 16 hex digits, which
 * are other ones each time it is sent.
 *
 * Prints one JSON object; exit status 1 only where the generator itself failed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 8192, SCRATCH_BYTES = 1 << 20, EVENTS = 256 };
enum { DIGITS = 16, MAX_EXCHANGES = 1024 };
/* Seconds after which a request without a response is given up. */
static const double REQUEST_TIMEOUT = 60;

struct exchange {
    const char *request, *body;
    size_t request_bytes, body_bytes;
};

struct connection {
    int fd; /* -1: closed */
    bool busy, is_new, wrong, no_retry_after, last;
    size_t turn; /* which exchange is next */
    const struct exchange *exchange;
    char *own_request; /* where requests differ */
    size_t sent, head_bytes, expected, received; /* the last two of the response's body */
    int status;                                  /* 0: the head has not come */
    double began;
    char head[HEAD_BYTES + 1];
};

struct durations {
    double *seconds;
    size_t count, room;
};

static struct exchange exchanges[MAX_EXCHANGES];
static size_t exchange_count;
static struct connection *connections;
static size_t connection_count;
static size_t *idle, idle_count; /* a stack: what is not needed stays closed */
static int poller;
static const char *address;
static size_t raw_bytes, prefix_bytes;
static size_t *offsets, offset_count;
static char scratch[SCRATCH_BYTES];
static size_t statuses[600];
static size_t offered, right_in_time, wrong, no_retry_after, resets, unanswered;
static struct durations served, refused;
static double start, end;

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

static void read_exchanges(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status))
        fail(path);
    size_t bytes = (size_t)status.st_size;
    const char *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        fail(path);
    for (const char *at = memory; at < memory + bytes; exchange_count++) {
        uint64_t lengths[2];
        memcpy(lengths, at, sizeof lengths);
        at += sizeof lengths;
        size_t left = bytes - (size_t)(at - memory);
        if (exchange_count == MAX_EXCHANGES || lengths[0] + lengths[1] > left)
            fail("the file does not hold what it says");
        exchanges[exchange_count] = (struct exchange){at, at + lengths[0], lengths[0], lengths[1]};
        at += lengths[0] + lengths[1];
    }
    if (!exchange_count)
        fail("the file is empty");
}

static void record(struct durations *of, double seconds)
{
    if (of->count == of->room) {
        of->room = of->room ? 2 * of->room : 1 << 16;
        of->seconds = realloc(of->seconds, of->room * sizeof *of->seconds);
        if (!of->seconds)
            fail("realloc");
    }
    of->seconds[of->count++] = seconds;
}

static void close_connection(struct connection *c)
{
    close(c->fd);
    c->fd = -1;
}

static void mark_idle(struct connection *c)
{
    c->busy = false;
    idle[idle_count++] = (size_t)(c - connections);
}

/* The connection ended before the response was complete. */
static void lose(struct connection *c, size_t *counter)
{
    ++*counter;
    close_connection(c);
    mark_idle(c);
}

static int connected(int family, const void *to, socklen_t bytes)
{
    /* A nonblocking connect to a Unix socket fails where its backlog is full. */
    int mode = family == AF_UNIX ? 0 : SOCK_NONBLOCK;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | mode, 0);
    if (fd < 0)
        fail("socket");
    if (connect(fd, to, bytes) && errno != EINPROGRESS)
        fail("connect");
    if (fcntl(fd, F_SETFL, O_NONBLOCK))
        fail("fcntl");
    return fd;
}

static void open_connection(struct connection *c)
{
    if (strchr(address, '/')) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        if (strlen(address) >= sizeof to.sun_path)
            fail("the socket's path is too long");
        strcpy(to.sun_path, address);
        c->fd = connected(AF_UNIX, &to, sizeof to);
    } else {
        const char *colon = strchr(address, ':'), *port = colon ? colon + 1 : address;
        char host[INET_ADDRSTRLEN] = "127.0.0.1";
        if (colon)
            snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
        if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
            fail("the address is not IPv4");
        int one = 1;
        c->fd = connected(AF_INET, &to, sizeof to);
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    c->is_new = true;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event))
        fail("epoll_ctl");
}

/* Writes digits that look random, as ids do (splitmix64), and do not come again. */
static void renumber(char *request)
{
    static uint64_t state;
    if (!state)
        state = (uint64_t)(now() * 1e9);
    for (size_t i = 0; i < offset_count; i++) {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        char digits[DIGITS + 1];
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        snprintf(digits, sizeof digits, "%016" PRIx64, z ^ (z >> 31));
        memcpy(request + offsets[i], digits, DIGITS);
    }
}

/* Sends what the socket takes. An error shows in what can be received. */
static void send_more(struct connection *c)
{
    while (c->sent < c->exchange->request_bytes) {
        const char *request = c->own_request ? c->own_request : c->exchange->request;
        size_t left = c->exchange->request_bytes - c->sent;
        ssize_t n = send(c->fd, request + c->sent, left, MSG_NOSIGNAL);
        if (n < 0)
            return;
        c->sent += (size_t)n;
    }
}

static void begin(struct connection *c)
{
    if (c->fd < 0)
        open_connection(c);
    if (offset_count) {
        c->exchange = &exchanges[0];
        if (!c->own_request && !(c->own_request = malloc(c->exchange->request_bytes)))
            fail("malloc");
        memcpy(c->own_request, c->exchange->request, c->exchange->request_bytes);
        renumber(c->own_request);
    } else {
        c->exchange = &exchanges[c->turn++ % exchange_count];
    }
    c->busy = true;
    c->wrong = c->no_retry_after = c->last = false;
    c->head_bytes = c->received = 0;
    c->sent = c->is_new ? 0 : prefix_bytes;
    c->is_new = false;
    c->expected = raw_bytes;
    c->status = raw_bytes ? 200 : 0;
    c->began = now();
    offered++;
    send_more(c);
}

static char *field(struct connection *c, const char *name)
{
    char *found = strcasestr(c->head, name);
    return found ? found + strlen(name) : NULL;
}

static void check(struct connection *c, const char *bytes, size_t count)
{
    if (c->status == 200 && c->exchange->body_bytes && !c->wrong)
        c->wrong = memcmp(bytes, c->exchange->body + c->received, count) != 0;
    c->received += count;
}

/* Parses a complete head, and checks the bytes of the body that came with it. */
static void read_head(struct connection *c)
{
    c->head[c->head_bytes] = 0;
    char *blank = strstr(c->head, "\r\n\r\n");
    if (!blank) {
        if (c->head_bytes == HEAD_BYTES)
            fail("the response's head is too long");
        return;
    }
    size_t early = c->head_bytes - (size_t)(blank + 4 - c->head);
    blank[2] = 0;
    c->status = atoi(c->head + sizeof "HTTP/1.1 " - 1);
    char *length = field(c, "\r\ncontent-length:"), *connection = field(c, "\r\nconnection:");
    if (strncmp(c->head, "HTTP/1.1 ", 9) || c->status < 200 || c->status > 599 || !length)
        fail(c->head);
    c->expected = strtoull(length, NULL, 10);
    size_t right = c->exchange->body_bytes;
    c->wrong = c->status == 200 && right && c->expected != right;
    c->no_retry_after = c->status == 503 && !field(c, "\r\nretry-after:");
    c->last = connection && !strncasecmp(connection + strspn(connection, " "), "close", 5);
    if (early > c->expected)
        fail("more bytes than the response");
    check(c, blank + 4, early);
}

static void finish(struct connection *c)
{
    double t = now();
    statuses[c->status]++;
    wrong += c->wrong;
    no_retry_after += c->no_retry_after;
    right_in_time += c->status == 200 && !c->wrong && t <= end;
    record(c->status == 200 ? &served : &refused, t - c->began);
    if (c->last || c->sent < c->exchange->request_bytes)
        close_connection(c);
    mark_idle(c);
}

static void receive_more(struct connection *c)
{
    while (c->busy) {
        char *memory = c->status ? scratch : c->head + c->head_bytes;
        size_t most = c->status ? c->expected - c->received : HEAD_BYTES - c->head_bytes;
        ssize_t n = recv(c->fd, memory, most < SCRATCH_BYTES ? most : SCRATCH_BYTES, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            lose(c, &resets);
            return;
        }
        if (c->status) {
            check(c, memory, (size_t)n);
        } else {
            c->head_bytes += (size_t)n;
            read_head(c);
        }
        if (c->status && c->received == c->expected)
            finish(c);
    }
}

/* The only event of an idle connection is its end. */
static void read_idle(struct connection *c)
{
    ssize_t n = recv(c->fd, scratch, SCRATCH_BYTES, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        fail("a response without a request");
    close_connection(c);
}

/* Tells how far each late request came, and gives it up. */
static void give_up_late_requests(void)
{
    for (size_t i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        if (!c->busy || now() - c->began <= REQUEST_TIMEOUT)
            continue;
        fprintf(stderr, "load: %zu: sent %zu of %zu, received %zu of %zu bytes, %.1f s\n", i,
                c->sent, c->exchange->request_bytes, c->received, c->expected, now() - c->began);
        lose(c, &unanswered);
    }
}

static void start_due(double rate)
{
    double passed = now() - start;
    size_t due = rate > 0 ? (size_t)(rate * passed) + 1 : SIZE_MAX, ready = idle_count;
    /* Each once: a connection that is lost at once is idle again and waits for the next turn. */
    while (ready-- && offered < due)
        begin(&connections[idle[--idle_count]]);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct durations *of, size_t percent)
{
    if (!of->count)
        return 0;
    qsort(of->seconds, of->count, sizeof *of->seconds, by_size);
    return of->seconds[of->count * percent / 100];
}

static void report(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double busy = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                  (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
    printf("{\"statuses\": {");
    const char *comma = "";
    for (int i = 0; i < 600; i++)
        if (statuses[i]) {
            printf("%s\"%d\": %zu", comma, i, statuses[i]);
            comma = ", ";
        }
    printf("}, \"offered\": %zu, \"right_in_time\": %zu, \"wrong\": %zu, \"no_retry_after\": %zu, "
           "\"resets\": %zu, \"unanswered\": %zu, \"seconds\": %.6f, \"busy\": %.4f, "
           "\"p50\": %.9f, \"p99\": %.9f, \"refusal_p50\": %.9f, \"refusal_p99\": %.9f}\n",
           offered, right_in_time, wrong, no_retry_after, resets, unanswered, end - start,
           busy / (now() - start), quantile(&served, 50), quantile(&served, 99),
           quantile(&refused, 50), quantile(&refused, 99));
}

int main(int argc, char **argv)
{
    if (argc < 6)
        fail("load ADDRESS CONNECTIONS SECONDS RATE FILE [RAW_BYTES PREFIX_BYTES [OFFSET ...]]");
    address = argv[1];
    connection_count = (size_t)atol(argv[2]);
    double rate = atof(argv[4]);
    read_exchanges(argv[5]);
    raw_bytes = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
    prefix_bytes = argc > 7 ? strtoull(argv[7], NULL, 10) : 0;
    offset_count = argc > 8 ? (size_t)argc - 8 : 0;
    connections = calloc(connection_count, sizeof *connections);
    idle = calloc(connection_count, sizeof *idle);
    offsets = calloc(offset_count + 1, sizeof *offsets);
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || !idle || !offsets || poller < 0)
        fail("epoll");
    for (size_t i = 0; i < offset_count; i++) {
        offsets[i] = strtoull(argv[8 + i], NULL, 10);
        if (offsets[i] + DIGITS > exchanges[0].request_bytes)
            fail("an offset is beyond the request");
    }
    for (size_t i = connection_count; i--;) {
        connections[i].fd = -1;
        connections[i].turn = i;
        mark_idle(&connections[i]);
        if (!rate)
            open_connection(&connections[i]); /* not within the first response's time */
    }
    start = now();
    end = start + atof(argv[3]);
    double checked = start;
    for (double t = start; t < end || idle_count < connection_count; t = now()) {
        if (t < end)
            start_due(rate);
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, rate > 0 ? 1 : 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->fd < 0)
                continue;
            if (c->busy) {
                send_more(c);
                receive_more(c);
            } else {
                read_idle(c);
            }
        }
        if (t > checked + 1) {
            give_up_late_requests();
            checked = t;
        }
    }
    report();
    return 0;
}
