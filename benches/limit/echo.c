/* The limit: a raw epoll echo of frames (four big-endian size bytes, payload), one thread.
   Usage: echo PORT. Handles every complete frame of a read and answers with one write per read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM (2u << 20)

struct conn {
    int fd;
    size_t have;      /* bytes in `in` */
    size_t room;      /* bytes of `in` */
    unsigned char *in;
    unsigned char *out; /* what a full socket left */
    size_t out_at, out_len;
};

static int epoll_fd;
static unsigned char shared[ROOM];

static void drop(struct conn *c) {
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

static void watch(struct conn *c, int op, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(epoll_fd, op, c->fd, &event);
}

/* Writes; keeps what the socket does not take and then waits for writing only. */
static int put(struct conn *c, const unsigned char *bytes, size_t len) {
    size_t at = 0;
    while (at < len) {
        ssize_t n = send(c->fd, bytes + at, len - at, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) return -1;
            c->out = malloc(len - at);
            memcpy(c->out, bytes + at, len - at);
            c->out_at = 0;
            c->out_len = len - at;
            watch(c, EPOLL_CTL_MOD, EPOLLOUT);
            return 0;
        }
        at += (size_t)n;
    }
    return 0;
}

static int readable(struct conn *c) {
    unsigned char *in = c->have ? c->in : shared;
    size_t room = c->have ? c->room : ROOM;
    ssize_t n = recv(c->fd, in + c->have, room - c->have, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN ? 0 : -1;
    size_t have = c->have + (size_t)n, at = 0, need = 0;
    while (have - at >= 4) {
        uint32_t size;
        memcpy(&size, in + at, 4);
        need = 4 + (size_t)ntohl(size);
        if (need > ROOM) return -1;
        if (have - at < need) break;
        at += need;
    }
    size_t left = have - at;
    if (at && put(c, in, at) < 0) return -1;
    if (left) {
        if (!c->in) c->in = malloc(c->room = ROOM);
        memmove(c->in, in + at, left);
    }
    c->have = left;
    return 0;
}

static int writable(struct conn *c) {
    unsigned char *bytes = c->out;
    size_t at = c->out_at, len = c->out_len;
    c->out = NULL;
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    int result = put(c, bytes + at, len - at);
    free(bytes);
    return result;
}

int main(int argc, char **argv) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1024)) return 1;
    getsockname(listener, (struct sockaddr *)&at, &size);
    printf("listening on 127.0.0.1:%d\n", ntohs(at.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[1024];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 1024, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c) {
                int result = events[i].events & EPOLLOUT ? writable(c) : readable(c);
                if (result < 0) drop(c);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0) continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            c = calloc(1, sizeof *c);
            c->fd = fd;
            watch(c, EPOLL_CTL_ADD, EPOLLIN);
        }
    }
}
