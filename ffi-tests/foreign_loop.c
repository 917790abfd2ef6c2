/* A host with its own loop, once with epoll and once with poll, that polls kloop only when the
 * descriptor is readable. If kloop has work and the descriptor is not readable, a check after each
 * poll tells, or this hangs and the clock ends it. The thread count of the process does not change. */
#include <dirent.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "check.h"

enum { RECORDS = 2000 };

struct host {
  kloop_engine *engine;
  int epoll; /* or -1: poll(2) */
  uint32_t cap;
  uint64_t delivered, records;
  int writable;
};

static unsigned threads(void) {
  unsigned n = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; tasks && (d = readdir(tasks));) n += d->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return n;
}

static void wait_readable(struct host *h) {
  if (h->epoll >= 0) {
    struct epoll_event ready;
    CHECK_IS(epoll_wait(h->epoll, &ready, 1, 10000), 1);
  } else {
    struct pollfd watch = {.fd = kloop_engine_fd(h->engine), .events = POLLIN};
    CHECK_IS(poll(&watch, 1, 10000), 1);
  }
}

static int readable(kloop_engine *engine, int wait_ms) {
  struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
  return poll(&watch, 1, wait_ms);
}

/* Work that is left behind an array that is full: the descriptor says so. Where the work is a
 * deadline that has just passed, its timer may be a little late. */
static void check_readable(kloop_engine *engine) {
  if (kloop_engine_timeout(engine) == 0) CHECK_IS(readable(engine, 5), 1);
}

static void turn(struct host *h) {
  kloop_event events[64];
  kloop_cursor cursor;
  kloop_record record;
  wait_readable(h);
  int32_t n = kloop_poll(h->engine, events, h->cap, 0);
  CHECK(n >= 0);
  if ((uint32_t)n == h->cap) check_readable(h->engine);
  for (int32_t i = 0; i < n; i++) {
    if (events[i].type == KLOOP_EV_DELIVERED) h->delivered += events[i].u.delivered.count;
    if (events[i].type == KLOOP_EV_WRITABLE) h->writable = 1;
    if (events[i].type == KLOOP_EV_ERROR) CHECK_IS(events[i].status, 0);
    if (events[i].type == KLOOP_EV_RECORDS) {
      CHECK_IS(kloop_records_open(h->engine, &events[i], &cursor), KLOOP_OK);
      while (kloop_records_read(&cursor, &record, 1) == 1) h->records++;
    }
    kloop_release(h->engine, &events[i].lease, 1);
  }
}

static void run(int with_epoll, uint32_t cap) {
  char address[64];
  kloop_topic topic;
  unsigned before = threads();
  struct host h = {.engine = check_engine(), .epoll = -1, .cap = cap};
  kloop_broker *broker = check_broker(h.engine, address, sizeof address);
  kloop_client *client = check_client(h.engine, address);
  const kloop_prop props[] = {{"linger.ms", "3"}, {"batch.size", "1000"}};
  kloop_producer *producer = check_producer(client, props, 2);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  if (with_epoll) {
    struct epoll_event watch = {.events = EPOLLIN, .data = {.u64 = 0}};
    h.epoll = epoll_create1(0);
    CHECK_IS(epoll_ctl(h.epoll, EPOLL_CTL_ADD, kloop_engine_fd(h.engine), &watch), 0);
  }
  CHECK_IS(kloop_client_topic(client, "loop", 4, &topic), KLOOP_OK);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  for (uint64_t i = 0; i < RECORDS; i++) {
    kloop_msg msg = check_msg(topic, "a record of this loop", 21, i);
    int32_t took;
    while ((took = kloop_produce(producer, &msg, 1)) == 0) {
      h.writable = 0;
      while (!h.writable) turn(&h);
    }
    CHECK_IS(took, 1);
    if (i % 97 == 0) turn(&h);
  }
  while (h.delivered < RECORDS || h.records < RECORDS) turn(&h);
  CHECK_IS(h.delivered, RECORDS);
  CHECK_IS(h.records, RECORDS);
  CHECK_IS(threads(), before);
  if (h.epoll >= 0) close(h.epoll);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(h.engine);
  CHECK_IS(threads(), before);
}

/* Events that are left for want of room, and nothing else: no socket and no timer makes the descriptor
 * readable. With the last one taken it is not readable any more. */
static void left_over(uint32_t cap) {
  kloop_event events[64];
  kloop_waker *waker = NULL;
  kloop_engine *engine = check_engine();
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  const uint64_t posts = 3 * cap + 1;
  for (uint64_t i = 1; i <= posts; i++) CHECK_IS(kloop_waker_post(waker, i), KLOOP_OK);
  for (uint64_t taken = 0; taken < posts;) {
    CHECK_IS(readable(engine, 0), 1);
    int32_t n = kloop_poll(engine, events, cap, 0);
    CHECK(n > 0);
    taken += (uint64_t)n;
  }
  CHECK_IS(readable(engine, 0), 0);
  CHECK_IS(kloop_poll(engine, events, cap, 0), 0);
  kloop_waker_free(waker);
  kloop_engine_free(engine);
}

int main(void) {
  const uint32_t caps[] = {1, 7, 64};
  for (int i = 0; i < 3; i++) {
    left_over(caps[i]);
    run(1, caps[i]);
    run(0, caps[i]);
  }
  return 0;
}
