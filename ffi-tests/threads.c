/* What another thread may do (post) and what it may not (everything else), moving an engine, and a
 * log sink that calls back. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

enum { POSTS = 20000, POSTERS = 2 };

struct poster {
  kloop_waker *waker;
  uint64_t tag;
};

static void *post_many(void *arg) {
  struct poster *p = arg;
  for (uint64_t i = 0; i < POSTS; i++) {
    kloop_status status;
    while ((status = kloop_waker_post(p->waker, p->tag << 32 | i)) == KLOOP_E_AGAIN) sched_yield();
    CHECK_IS(status, KLOOP_OK);
  }
  return NULL;
}

static void posts_arrive_once_and_in_order(uint32_t cap) {
  kloop_engine *engine = check_engine();
  kloop_waker *waker;
  pthread_t threads[POSTERS];
  struct poster posters[POSTERS];
  uint64_t next[POSTERS] = {0}, left = (uint64_t)POSTS * POSTERS;
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  for (int i = 0; i < POSTERS; i++) {
    posters[i].waker = waker;
    posters[i].tag = (uint64_t)i;
    CHECK_IS(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
  }
  while (left > 0) {
    kloop_event events[64];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    CHECK_IS(poll(&watch, 1, 10000), 1);
    int32_t n = kloop_poll(engine, events, cap, 0);
    CHECK(n >= 0);
    for (int32_t i = 0; i < n; i++, left--) {
      CHECK_IS(events[i].type, KLOOP_EV_POSTED);
      CHECK_IS(events[i].user & 0xffffffffu, next[events[i].user >> 32]++);
    }
  }
  for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
  kloop_engine_free(engine);
  CHECK_IS(kloop_waker_post(waker, 1), KLOOP_E_CLOSED);
  kloop_waker_free(waker);
}

static kloop_client *shared_client;

static void *wrong_thread(void *arg) {
  kloop_engine *engine = arg;
  kloop_event event;
  CHECK_IS(kloop_poll(engine, &event, 1, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_engine_fd(engine), KLOOP_E_THREAD);
  CHECK_IS(kloop_client_close(shared_client, 0), KLOOP_E_THREAD);
  kloop_client_free(shared_client); /* refused too: the client lives on */
  CHECK_IS(kloop_engine_take(engine), KLOOP_OK);
  CHECK_IS(kloop_poll(engine, &event, 0, 0), 0);
  return NULL;
}

static void the_engine_belongs_to_one_thread(void) {
  pthread_t other;
  kloop_event event;
  kloop_engine *engine = check_engine();
  shared_client = check_client(engine, "127.0.0.1:1");
  CHECK_IS(pthread_create(&other, NULL, wrong_thread, engine), 0);
  pthread_join(other, NULL);
  CHECK_IS(kloop_poll(engine, &event, 1, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_engine_take(engine), KLOOP_OK);
  CHECK(kloop_poll(engine, &event, 1, 0) >= 0);
  kloop_client_free(shared_client);
  kloop_engine_free(engine);
}

static kloop_engine *logging_engine;
static int lines;

static void calls_back(void *ctx, uint32_t level, const char *msg, size_t len) {
  kloop_event event;
  CHECK(ctx == &lines && level >= 1 && level <= 4 && msg != NULL && len > 0);
  lines++;
  if (logging_engine == NULL) return; /* still inside kloop_engine_new */
  CHECK_IS(kloop_poll(logging_engine, &event, 1, 0), KLOOP_E_REENTRANT);
  CHECK_IS(kloop_engine_fd(logging_engine), KLOOP_E_REENTRANT);
}

static void the_log_sink_cannot_call_in(void) {
  kloop_engine_config cfg;
  kloop_event events[4];
  char address[64];
  int pair[2];
  CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.log = calls_back;
  cfg.log_ctx = &lines;
  cfg.log_level = 4;
  CHECK_IS(kloop_engine_new(&cfg, &logging_engine, NULL), KLOOP_OK);
  kloop_broker *broker = check_broker(logging_engine, address, sizeof address);
  /* Garbage on a connection gives a line. */
  CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  CHECK_IS(kloop_broker_adopt(broker, pair[0], NULL), KLOOP_OK);
  CHECK_IS(write(pair[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
  int before = lines;
  for (int i = 0; i < 20 && lines == before; i++)
    CHECK(kloop_poll(logging_engine, events, 4, 50000000) >= 0);
  CHECK(lines > before);
  char byte;
  CHECK_IS(read(pair[1], &byte, 1), 0); /* the broker hung up */
  close(pair[1]);
  kloop_broker_free(broker);
  kloop_engine_free(logging_engine);
}

int main(void) {
  posts_arrive_once_and_in_order(1);
  posts_arrive_once_and_in_order(7);
  posts_arrive_once_and_in_order(64);
  the_engine_belongs_to_one_thread();
  the_log_sink_cannot_call_in();
  return 0;
}
