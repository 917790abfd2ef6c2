/* Load for a framed echo server, one thread.
   Usage: echo_load HOST:PORT CONNECTIONS DEPTH PAYLOAD SECONDS
   Keeps DEPTH frames of PAYLOAD bytes in flight on each connection, checks that as many bytes come
   back, and prints requests a second and the round trip's median and 99th percentile. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 200000 /* of 0.1 microseconds */
#define ROOM (4u << 20)

struct conn {
    int fd;
    size_t got;        /* bytes of the answer in progress */
    size_t owed;       /* bytes that the socket did not take yet */
    uint64_t *sent;    /* when each frame in flight was sent */
    unsigned head, in_flight;
    int blocked;       /* watched for writing too */
};

static int epoll_fd;
static size_t frame, depth;
static unsigned char *out; /* depth frames in a row */
static unsigned char in[ROOM];
static uint64_t answers, slots[BUCKETS + 1];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void watch(struct conn *c, int op, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(epoll_fd, op, c->fd, &event);
}

static void push(struct conn *c) {
    while (c->owed) {
        size_t all = frame * depth, at = (all - c->owed % frame) % frame;
        size_t len = c->owed < all - at ? c->owed : all - at;
        ssize_t n = send(c->fd, out + at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) fail("send");
        if (n < 0) break;
        c->owed -= (size_t)n;
    }
    if ((c->owed > 0) != c->blocked) {
        c->blocked = c->owed > 0;
        watch(c, EPOLL_CTL_MOD, c->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

static void more(struct conn *c, unsigned count, uint64_t at) {
    for (unsigned i = 0; i < count; i++) c->sent[(c->head + c->in_flight++) % depth] = at;
    c->owed += count * frame;
    push(c);
}

static void readable(struct conn *c) {
    ssize_t n = recv(c->fd, in, ROOM, 0);
    if (n == 0) fail("the server closed");
    if (n < 0) {
        if (errno == EAGAIN) return;
        fail("recv");
    }
    uint64_t at = now();
    c->got += (size_t)n;
    unsigned done = (unsigned)(c->got / frame);
    c->got %= frame;
    for (unsigned i = 0; i < done; i++) {
        uint64_t took = (at - c->sent[c->head]) / 100;
        slots[took < BUCKETS ? took : BUCKETS]++;
        c->head = (unsigned)((c->head + 1) % depth);
    }
    c->in_flight -= done;
    answers += done;
    if (done) more(c, done, at);
}

static double percentile(double share) {
    uint64_t want = (uint64_t)((double)answers * share), seen = 0;
    for (unsigned i = 0; i <= BUCKETS; i++)
        if ((seen += slots[i]) > want) return i / 10.0;
    return BUCKETS / 10.0;
}

int main(int argc, char **argv) {
    char *port = argc == 6 ? strrchr(argv[1], ':') : NULL;
    if (!port) {
        fprintf(stderr, "usage: echo_load HOST:PORT CONNECTIONS DEPTH PAYLOAD SECONDS\n");
        return 2;
    }
    *port++ = 0;
    int connections = atoi(argv[2]), one = 1;
    depth = (size_t)atoi(argv[3]);
    frame = 4 + (size_t)atoi(argv[4]);
    double seconds = atof(argv[5]);
    out = malloc(frame * depth);
    memset(out, 'k', frame * depth);
    uint32_t size = htonl((uint32_t)frame - 4);
    for (size_t i = 0; i < depth; i++) memcpy(out + i * frame, &size, 4);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    epoll_fd = epoll_create1(0);
    struct conn *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        struct conn *c = &all[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->sent = calloc(depth, sizeof *c->sent);
    }
    for (int i = 0; i < connections; i++) {
        fcntl(all[i].fd, F_SETFL, O_NONBLOCK);
        watch(&all[i], EPOLL_CTL_ADD, EPOLLIN);
        more(&all[i], (unsigned)depth, now());
    }
    uint64_t begin = now(), end = begin + (uint64_t)(seconds * 1e9), at = begin;
    /* The first fifth warms up. */
    uint64_t measured = begin + (end - begin) / 5;
    int warm = 0;
    struct epoll_event events[1024];
    while ((at = now()) < end) {
        if (!warm && at >= measured) {
            warm = 1;
            measured = at;
            answers = 0;
            memset(slots, 0, sizeof slots);
        }
        int n = epoll_wait(epoll_fd, events, 1024, 100);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) push(c);
            if (events[i].events & EPOLLIN) readable(c);
        }
    }
    printf("requests_per_s %.0f p50_us %.1f p99_us %.1f\n",
           (double)answers / ((double)(at - measured) / 1e9), percentile(0.5), percentile(0.99));
    return 0;
}
