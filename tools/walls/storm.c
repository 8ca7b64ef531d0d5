/* Keeps many connections busy, reads every answer to its end, and counts what came of each request.
 *
 *   storm PORT CONNECTIONS SECONDS RATE FILE
 *
 * RATE is requests a second of all connections together; at 0 each sends its next as soon as it has
 * its answer. FILE holds pairs in turn: two little-endian 64-bit lengths, a request as it goes over
 * the wire, and the body that its answer with status 200 must have. Refused senders stop sending, as
 * HTTP clients do that read while they write. Prints one JSON object; ends with 1 only if it could
 * not do its work.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 8192, SCRATCH_BYTES = 1 << 20, EVENTS = 256, MOST_PAIRS = 1024 };
/* Seconds without an answer after which a request is given up. */
static const double PATIENCE = 60;

struct pair {
    const char *request, *body;
    size_t request_bytes, body_bytes;
};

struct connection {
    int fd; /* -1: closed */
    bool busy, wrong, mute, last;
    size_t turn; /* which pair is next */
    const struct pair *pair;
    size_t sent, head_bytes, expected, received; /* the last two of the answer's body */
    int status;                                  /* 0: the head has not come */
    double began;
    char head[HEAD_BYTES + 1];
};

struct durations {
    double *seconds;
    size_t count, room;
};

static struct pair pairs[MOST_PAIRS];
static size_t pair_count;
static struct connection *connections;
static size_t connection_count;
static size_t *idle, idle_count; /* a stack: what is not needed stays closed */
static int poller, port;
static char scratch[SCRATCH_BYTES];
static size_t statuses[600];
static size_t offered, right_in_time, wrong, mute, resets, unanswered;
static struct durations served, refused;
static double start, end;

static void fail(const char *what)
{
    fprintf(stderr, "storm: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_pairs(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status))
        fail(path);
    size_t bytes = (size_t)status.st_size;
    const char *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        fail(path);
    for (const char *at = memory; at < memory + bytes; pair_count++) {
        uint64_t lengths[2];
        memcpy(lengths, at, sizeof lengths);
        at += sizeof lengths;
        if (pair_count == MOST_PAIRS || lengths[0] + lengths[1] > bytes - (size_t)(at - memory))
            fail("the file does not hold what it says");
        pairs[pair_count] = (struct pair){at, at + lengths[0], lengths[0], lengths[1]};
        at += lengths[0] + lengths[1];
    }
    if (!pair_count)
        fail("the file is empty");
}

static void note(struct durations *of, double seconds)
{
    if (of->count == of->room) {
        of->room = of->room ? 2 * of->room : 1 << 16;
        of->seconds = realloc(of->seconds, of->room * sizeof *of->seconds);
        if (!of->seconds)
            fail("realloc");
    }
    of->seconds[of->count++] = seconds;
}

static void hang_up(struct connection *c)
{
    close(c->fd);
    c->fd = -1;
}

static void rest(struct connection *c)
{
    c->busy = false;
    idle[idle_count++] = (size_t)(c - connections);
}

/* The connection ended before the answer was whole. */
static void lose(struct connection *c, size_t *counter)
{
    ++*counter;
    hang_up(c);
    rest(c);
}

static void open_connection(struct connection *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        fail("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        fail("connect");
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event))
        fail("epoll_ctl");
}

/* Sends what the socket takes. That it takes no more is told by what can be received. */
static void send_more(struct connection *c)
{
    while (c->sent < c->pair->request_bytes) {
        ssize_t n = send(c->fd, c->pair->request + c->sent, c->pair->request_bytes - c->sent,
                         MSG_NOSIGNAL);
        if (n < 0)
            return;
        c->sent += (size_t)n;
    }
}

static void begin(struct connection *c)
{
    c->pair = &pairs[c->turn++ % pair_count];
    c->busy = true;
    c->wrong = c->mute = c->last = false;
    c->sent = c->head_bytes = c->expected = c->received = 0;
    c->status = 0;
    c->began = now();
    offered++;
    if (c->fd < 0)
        open_connection(c);
    send_more(c);
}

static char *field(struct connection *c, const char *name)
{
    char *found = strcasestr(c->head, name);
    return found ? found + strlen(name) : NULL;
}

static void check(struct connection *c, const char *bytes, size_t count)
{
    if (c->status == 200 && !c->wrong)
        c->wrong = memcmp(bytes, c->pair->body + c->received, count) != 0;
    c->received += count;
}

/* Reads the head, if it is whole, and what came of the body with it. */
static void read_head(struct connection *c)
{
    c->head[c->head_bytes] = 0;
    char *blank = strstr(c->head, "\r\n\r\n");
    if (!blank) {
        if (c->head_bytes == HEAD_BYTES)
            fail("the answer's head is too long");
        return;
    }
    size_t early = c->head_bytes - (size_t)(blank + 4 - c->head);
    blank[2] = 0;
    c->status = atoi(c->head + sizeof "HTTP/1.1 " - 1);
    char *length = field(c, "\r\ncontent-length:"), *connection = field(c, "\r\nconnection:");
    if (strncmp(c->head, "HTTP/1.1 ", 9) || c->status < 200 || c->status > 599 || !length)
        fail(c->head);
    c->expected = strtoull(length, NULL, 10);
    c->wrong = c->status == 200 && c->expected != c->pair->body_bytes;
    c->mute = c->status == 503 && !field(c, "\r\nretry-after:");
    c->last = connection && !strncasecmp(connection + strspn(connection, " "), "close", 5);
    if (early > c->expected)
        fail("more came than the answer");
    check(c, blank + 4, early);
}

static void finish(struct connection *c)
{
    double t = now();
    statuses[c->status]++;
    wrong += c->wrong;
    mute += c->mute;
    right_in_time += c->status == 200 && !c->wrong && t <= end;
    note(c->status == 200 ? &served : &refused, t - c->began);
    if (c->last || c->sent < c->pair->request_bytes)
        hang_up(c);
    rest(c);
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

/* An idle connection has news: its end, as nothing else is due on it. */
static void look(struct connection *c)
{
    ssize_t n = recv(c->fd, scratch, SCRATCH_BYTES, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        fail("an answer that nobody asked for");
    hang_up(c);
}

static void give_up_late_ones(void)
{
    for (size_t i = 0; i < connection_count; i++)
        if (connections[i].busy && now() - connections[i].began > PATIENCE)
            lose(&connections[i], &unanswered);
}

static void start_due(double rate)
{
    double passed = now() - start;
    size_t due = rate > 0 ? (size_t)(rate * passed) + 1 : SIZE_MAX, ready = idle_count;
    /* Each once: one that is lost at once is idle again, and waits for the next turn. */
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
    printf("}, \"offered\": %zu, \"right_in_time\": %zu, \"wrong\": %zu, \"mute\": %zu, "
           "\"resets\": %zu, \"unanswered\": %zu, \"seconds\": %.6f, \"busy\": %.4f, "
           "\"p50\": %.9f, \"p99\": %.9f, \"refusal_p50\": %.9f, \"refusal_p99\": %.9f}\n",
           offered, right_in_time, wrong, mute, resets, unanswered, end - start,
           busy / (now() - start), quantile(&served, 50), quantile(&served, 99),
           quantile(&refused, 50), quantile(&refused, 99));
}

int main(int argc, char **argv)
{
    if (argc != 6)
        fail("storm PORT CONNECTIONS SECONDS RATE FILE");
    port = atoi(argv[1]);
    connection_count = (size_t)atol(argv[2]);
    double rate = atof(argv[4]);
    read_pairs(argv[5]);
    connections = calloc(connection_count, sizeof *connections);
    idle = calloc(connection_count, sizeof *idle);
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || !idle || poller < 0)
        fail("epoll");
    for (size_t i = connection_count; i--;) {
        connections[i].fd = -1;
        connections[i].turn = i;
        rest(&connections[i]);
    }
    start = now();
    end = start + atof(argv[3]);
    double looked = start;
    for (double t = start; t < end || idle_count < connection_count; t = now()) {
        if (t < end)
            start_due(rate);
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, 1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->fd < 0)
                continue;
            if (c->busy) {
                send_more(c);
                receive_more(c);
            } else {
                look(c);
            }
        }
        if (t > looked + 1) {
            give_up_late_ones();
            looked = t;
        }
    }
    report();
    return 0;
}
