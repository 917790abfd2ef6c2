/* Forks: a child may do nothing with its parent's engines but free them, and the parent does not
 * notice. */
#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { SECOND = 1000000000 };

static int descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int n = 0;
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) n++;
  closedir(folder);
  return n;
}

typedef struct Whole {
  kloop_engine *engine;
  kloop_broker *broker;
  kloop_client *client;
  kloop_producer *producer;
  kloop_consumer *consumer;
  kloop_waker *waker;
  kloop_topic topic;
  uint64_t given, delivered, seen;
} Whole;

/* Sends records up to number `end`, and reads them back. */
static void go_on(Whole *w, uint64_t end) {
  while (w->delivered < end || w->seen < end) {
    kloop_event events[16];
    if (w->given < end) {
      kloop_msg msg = check_msg(w->topic, "value", 5, w->given);
      int32_t took = kloop_produce(w->producer, &msg, 1);
      CHECK(took >= 0);
      w->given += (uint64_t)took;
    }
    int32_t n = kloop_poll(w->engine, events, 16, w->given < end ? 1000000 : 10LL * SECOND);
    CHECK(n >= 0);
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_DELIVERED) {
        CHECK_IS(events[i].u.delivered.outcome, KLOOP_PERSISTED);
        w->delivered += events[i].u.delivered.count;
      } else if (events[i].type == KLOOP_EV_RECORDS) {
        CHECK_IS(events[i].u.records.base_offset, w->seen);
        w->seen += events[i].u.records.count;
      }
      kloop_release(w->engine, &events[i].lease, 1);
    }
  }
}

static Whole whole(int threads) {
  char address[64];
  Whole w;
  memset(&w, 0, sizeof w);
  w.engine = check_engine();
  w.broker = check_broker(w.engine, address, sizeof address);
  if (threads) {
    kloop_reactor_conf rc;
    CHECK_IS(kloop_reactor_conf_init(&rc, sizeof rc, KLOOP_ABI), KLOOP_OK);
    rc.processors = 1;
    rc.handlers = 1;
    CHECK_IS(kloop_broker_start(w.broker, &rc, NULL), KLOOP_OK);
  }
  CHECK_IS(kloop_waker_new(w.engine, &w.waker), KLOOP_OK);
  w.client = check_client(w.engine, address);
  w.producer = check_producer(w.client, NULL, 0);
  w.consumer = check_consumer(w.client, NULL, 0);
  CHECK_IS(kloop_client_topic(w.client, "forks", 5, &w.topic), KLOOP_OK);
  kloop_tp from = {w.topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(w.consumer, &from, 1), KLOOP_OK);
  return w;
}

static void every_call_is_refused(Whole *w) {
  kloop_event event;
  kloop_error err;
  kloop_topic topic;
  kloop_msg msg = check_msg(w->topic, "child", 5, 1);
  CHECK_IS(kloop_poll(w->engine, &event, 1, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_engine_take(w->engine), KLOOP_E_THREAD);
  CHECK_IS(kloop_engine_fd(w->engine), KLOOP_E_THREAD);
  CHECK_IS(kloop_produce(w->producer, &msg, 1), KLOOP_E_THREAD);
  CHECK_IS(kloop_producer_flush(w->producer, 1), KLOOP_E_THREAD);
  CHECK_IS(kloop_client_topic(w->client, "child", 5, &topic), KLOOP_E_THREAD);
  CHECK_IS(kloop_broker_close(w->broker, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_broker_stop(w->broker, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_broker_take(w->broker, &event, 1, -1), KLOOP_E_THREAD);
  CHECK_IS(kloop_broker_respond(w->broker, 1, NULL, 0, 0, 0), KLOOP_E_THREAD);
  CHECK_IS(kloop_waker_post(w->waker, 1), KLOOP_E_CLOSED);
  kloop_engine_error(w->engine, &err);
  CHECK_IS(err.code, KLOOP_E_THREAD);
}

static void free_in_order(Whole *w, int order) {
  kloop_waker_free(w->waker);
  for (int i = 0; i < 5; i++) {
    switch ((i + order) % 5) {
      case 0: kloop_engine_free(w->engine); break;
      case 1: kloop_producer_free(w->producer); break;
      case 2: kloop_client_free(w->client); break;
      case 3: kloop_consumer_free(w->consumer); break;
      default: kloop_broker_free(w->broker);
    }
  }
}

/* `order` below 0: the child frees nothing. */
static void a_child_and_its_parent(int threads, int order) {
  int before = descriptors(), status;
  Whole w = whole(threads);
  go_on(&w, 100);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    every_call_is_refused(&w);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (order >= 0) free_in_order(&w, order);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 2); /* nobody waits for threads that are not there */
    if (order >= 0 && !threads) CHECK_IS(descriptors(), before);
    _exit(0);
  }
  go_on(&w, 300);
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  go_on(&w, 500);
  free_in_order(&w, 1);
  CHECK_IS(descriptors(), before);
}

int main(void) {
  for (int order = -1; order < 5; order++) a_child_and_its_parent(0, order);
  a_child_and_its_parent(1, -1);
  a_child_and_its_parent(1, 0);
  a_child_and_its_parent(1, 3);
  return 0;
}
