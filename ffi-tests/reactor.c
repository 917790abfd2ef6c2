/* A broker on threads of its own: which threads there are and when, records there and back from an
 * engine of its own, and everything in the wrong order. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

enum { RECORDS = 300, PROCESSORS = 2, HANDLERS = 3, SECOND = 1000000000 };

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int n = 0;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) n += task->d_name[0] != '.';
  closedir(tasks);
  return n;
}

/* How many threads of this process have a name that begins so; all of them must block signals. */
static int named(const char *prefix) {
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int n = 0;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) {
    char path[300], line[256];
    FILE *file;
    unsigned long long blocked = 0;
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    if ((file = fopen(path, "r")) == NULL) continue;
    int ours = 0;
    while (fgets(line, sizeof line, file) != NULL) {
      if (strncmp(line, "Name:\t", 6) == 0) ours = strncmp(line + 6, prefix, strlen(prefix)) == 0;
      sscanf(line, "SigBlk: %llx", &blocked);
    }
    fclose(file);
    if (!ours) continue;
    n++;
    CHECK(blocked >> (SIGTERM - 1) & 1);
    CHECK(blocked >> (SIGUSR1 - 1) & 1);
  }
  closedir(tasks);
  return n;
}

static kloop_reactor_conf conf(uint32_t processors, uint32_t handlers) {
  kloop_reactor_conf rc;
  CHECK_IS(kloop_reactor_conf_init(&rc, sizeof rc, KLOOP_ABI), KLOOP_OK);
  rc.processors = processors;
  rc.handlers = handlers;
  return rc;
}

static void start(kloop_broker *broker) {
  kloop_reactor_conf rc = conf(PROCESSORS, HANDLERS);
  kloop_error err;
  int before = threads();
  if (kloop_broker_start(broker, &rc, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK_IS(threads(), before + 1 + PROCESSORS + HANDLERS);
  CHECK_IS(kloop_broker_start(broker, &rc, &err), KLOOP_E_INVALID);
  CHECK_IS(threads(), before + 1 + PROCESSORS + HANDLERS);
}

/* The one event that is left is the broker's end. */
static void expect_closed(kloop_engine *engine) {
  kloop_event event;
  struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
  CHECK_IS(poll(&watch, 1, 10000), 1);
  CHECK_IS(kloop_poll(engine, &event, 1, 0), 1);
  CHECK_IS(event.type, KLOOP_EV_CLOSED);
  CHECK_IS(event.owner, 1);
  CHECK_IS(kloop_poll(engine, &event, 1, 0), 0);
}

/* Produces and consumes through `address`; the thread of this engine is the only one it has. */
static void there_and_back(const char *address) {
  kloop_engine *engine = check_engine();
  kloop_client *client = check_client(engine, address);
  kloop_producer *producer = check_producer(client, NULL, 0);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  kloop_topic topic;
  kloop_stats stats;
  uint64_t given = 0, delivered = 0, seen = 0;
  CHECK_IS(kloop_client_topic(client, "reactor", 7, &topic), KLOOP_OK);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  while (delivered < RECORDS || seen < RECORDS) {
    kloop_event events[16];
    /* One at a time, so that the consumer's fetches wait at the broker again and again. */
    if (given == delivered && given == seen && given < RECORDS) {
      kloop_msg msg = check_msg(topic, "value", 5, given);
      int32_t took = kloop_produce(producer, &msg, 1);
      CHECK(took >= 0);
      given += (uint64_t)took;
    }
    int32_t n = kloop_poll(engine, events, 16, 10LL * SECOND);
    CHECK(n > 0);
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_DELIVERED) {
        CHECK_IS(events[i].u.delivered.outcome, KLOOP_PERSISTED);
        delivered += events[i].u.delivered.count;
      } else if (events[i].type == KLOOP_EV_RECORDS) {
        CHECK_IS(events[i].u.records.base_offset, seen);
        seen += events[i].u.records.count;
      }
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  CHECK_IS(delivered, RECORDS);
  CHECK_IS(seen, RECORDS);
  CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
  CHECK_IS(stats.leases, 0);
  CHECK(stats.bytes_in > 0 && stats.bytes_out > 0);
  kloop_engine_free(engine);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
}

static void started_used_and_stopped(void) {
  char address[64], again[64];
  int before = threads();
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  CHECK_IS(threads(), before);
  CHECK_IS(kloop_broker_stop(broker, 0), KLOOP_E_INVALID);
  start(broker);
  /* A thread gives itself its name when it first runs. */
  while (named("kloop-acceptor") != 1 || named("kloop-proc-") != PROCESSORS ||
         named("kloop-handler-") != HANDLERS)
    sched_yield();
  CHECK(kloop_broker_address(broker, again, sizeof again) > 0);
  CHECK(strcmp(address, again) == 0);
  there_and_back(address);
  CHECK_IS(kloop_broker_disconnect(broker, 1), KLOOP_E_UNSUPPORTED);
  CHECK_IS(kloop_broker_respond(broker, 1, NULL, 0, 0, 0), KLOOP_E_STALE);
  kloop_event event;
  CHECK_IS(kloop_poll(engine, &event, 1, 0), 0);
  CHECK_IS(kloop_broker_stop(broker, SECOND), KLOOP_OK);
  CHECK_IS(threads(), before);
  CHECK_IS(kloop_broker_stop(broker, SECOND), KLOOP_OK);
  expect_closed(engine);
  CHECK_IS(kloop_broker_stop(broker, SECOND), KLOOP_OK);
  CHECK_IS(kloop_poll(engine, &event, 1, 0), 0);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

static void closing_stops(void) {
  char address[64];
  int before = threads();
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  start(broker);
  CHECK_IS(kloop_broker_close(broker, SECOND), KLOOP_OK);
  CHECK_IS(threads(), before);
  expect_closed(engine);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* `first`: the engine goes before its broker. */
static void freed_without_a_stop(int first) {
  char address[64];
  int before = threads();
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  start(broker);
  there_and_back(address);
  if (first) kloop_engine_free(engine);
  if (first) CHECK_IS(threads(), before);
  kloop_broker_free(broker);
  CHECK_IS(threads(), before);
  if (!first) kloop_engine_free(engine);
}

static void what_cannot_be_started(void) {
  char address[64];
  const uint64_t apis[1] = {1};
  const int32_t cpus[2] = {0, -1};
  kloop_error err;
  kloop_broker_conf bc;
  kloop_reactor_conf rc = conf(0, 0), odd;
  int before = threads();
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address), *other = NULL;
  CHECK_IS(kloop_broker_start(broker, NULL, &err), KLOOP_E_INVALID);
  CHECK(err.code == KLOOP_E_INVALID && err.msg[0] != 0);
  odd = rc, odd.flags = 1;
  CHECK_IS(kloop_broker_start(broker, &odd, &err), KLOOP_E_ABI);
  odd = rc, odd.processors = 1000;
  CHECK_IS(kloop_broker_start(broker, &odd, &err), KLOOP_E_INVALID);
  odd = rc, odd.cpus = cpus, odd.cpu_count = 2;
  CHECK_IS(kloop_broker_start(broker, &odd, &err), KLOOP_E_INVALID);
  odd = rc, odd.cpus = NULL, odd.cpu_count = 2;
  CHECK_IS(kloop_broker_start(broker, &odd, &err), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI), KLOOP_OK);
  CHECK_IS(kloop_broker_new(engine, &bc, &other, &err), KLOOP_OK);
  CHECK_IS(kloop_broker_start(other, &rc, &err), KLOOP_E_INVALID); /* it does not listen */
  kloop_broker_free(other);
  bc.listen = "127.0.0.1:0";
  bc.host_apis = apis;
  bc.host_api_words = 1;
  CHECK_IS(kloop_broker_new(engine, &bc, &other, &err), KLOOP_OK);
  CHECK_IS(kloop_broker_start(other, &rc, &err), KLOOP_OK);
  kloop_broker_free(other);
  CHECK_IS(threads(), before);
  /* After all that the broker can still be started, on one processor of the machine. */
  odd = rc, odd.cpus = cpus, odd.cpu_count = 1;
  CHECK_IS(kloop_broker_start(broker, &odd, NULL), KLOOP_OK);
  CHECK_IS(threads(), before + 1 + 3 + 8);
  there_and_back(address);
  kloop_broker_free(broker);
  CHECK_IS(kloop_broker_start(broker, &rc, &err), KLOOP_E_STALE);
  CHECK_IS(threads(), before);
  kloop_engine_free(engine);
}

enum { FIND_COORDINATOR = 10, ASKED = 200, TAKERS = 3 };

/* Answers requests with their own body until the broker stops. */
static void *answer(void *arg) {
  kloop_broker *broker = arg;
  for (;;) {
    kloop_event events[7];
    int32_t n = kloop_broker_take(broker, events, 7, -1);
    if (n == KLOOP_E_CLOSED) return NULL;
    CHECK(n > 0);
    while (n-- > 0) {
      CHECK_IS(events[n].type, KLOOP_EV_REQUEST);
      CHECK_IS(events[n].owner, 9);
      CHECK_IS(events[n].lease, 0);
      CHECK_IS(events[n].u.request.api_key, FIND_COORDINATOR);
      kloop_slice body = {events[n].u.request.body, events[n].u.request.body_len};
      CHECK_IS(kloop_broker_respond(broker, events[n].u.request.id, &body, 1, 0, 1), KLOOP_E_ABI);
      CHECK_IS(kloop_broker_respond(broker, events[n].u.request.id, &body, 1, 0, 0), KLOOP_OK);
      CHECK_IS(kloop_broker_respond(broker, events[n].u.request.id, &body, 1, 0, 0), KLOOP_E_STALE);
    }
  }
}

/* Threads of this program answer an API, while its main thread has nothing to do with the broker. */
static void threads_of_the_host_answer(void) {
  char address[64];
  const uint64_t apis[1] = {1ull << FIND_COORDINATOR};
  kloop_broker_conf bc;
  kloop_broker *broker;
  kloop_event event;
  kloop_reactor_conf rc = conf(PROCESSORS, HANDLERS);
  kloop_engine *engine = check_engine(), *other = check_engine();
  pthread_t takers[TAKERS];
  CHECK_IS(kloop_broker_take(NULL, &event, 1, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI), KLOOP_OK);
  bc.listen = "127.0.0.1:0";
  bc.host_apis = apis;
  bc.host_api_words = 1;
  bc.user = 9;
  CHECK_IS(kloop_broker_new(engine, &bc, &broker, NULL), KLOOP_OK);
  CHECK_IS(kloop_broker_take(broker, &event, 1, 0), KLOOP_E_INVALID); /* not started */
  CHECK(kloop_broker_address(broker, address, sizeof address) > 0);
  CHECK_IS(kloop_broker_start(broker, &rc, NULL), KLOOP_OK);
  CHECK_IS(kloop_broker_take(broker, NULL, 1, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_take(broker, &event, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_take(broker, &event, 1, 1000000), 0);
  for (int i = 0; i < TAKERS; i++) CHECK_IS(pthread_create(&takers[i], NULL, answer, broker), 0);
  kloop_client *client = check_client(other, address);
  int asked = 0, answered = 0;
  while (answered < ASKED) {
    char body[32];
    if (asked < ASKED) {
      int len = snprintf(body, sizeof body, "request %d", asked);
      kloop_slice sent = {body, (size_t)len};
      if (kloop_client_request(client, -1, FIND_COORDINATOR, 1, sent, (uint64_t)asked, NULL) == KLOOP_OK) asked++;
    }
    if (kloop_poll(other, &event, 1, asked < ASKED ? 0 : 10LL * SECOND) != 1) continue;
    if (event.type == KLOOP_EV_REPLY) {
      int len = snprintf(body, sizeof body, "request %d", (int)event.user);
      CHECK_IS(event.status, 0);
      CHECK_IS(event.u.request.body_len, (uint32_t)len);
      CHECK(memcmp(event.u.request.body, body, (size_t)len) == 0);
      answered++;
    }
    kloop_release(other, &event.lease, 1);
  }
  CHECK_IS(kloop_broker_stop(broker, SECOND), KLOOP_OK);
  for (int i = 0; i < TAKERS; i++) CHECK_IS(pthread_join(takers[i], NULL), 0);
  CHECK_IS(kloop_broker_take(broker, &event, 1, -1), KLOOP_E_CLOSED);
  kloop_engine_free(other);
  kloop_client_free(client);
  kloop_broker_free(broker);
  CHECK_IS(kloop_broker_take(broker, &event, 1, -1), KLOOP_E_STALE);
  kloop_engine_free(engine);
}

int main(void) {
  started_used_and_stopped();
  closing_stops();
  freed_without_a_stop(0);
  freed_without_a_stop(1);
  what_cannot_be_started();
  threads_of_the_host_answer();
  return 0;
}
