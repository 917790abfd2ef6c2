/* One body for every loop: a producer, a consumer or a broker in the loop under test, and its
 * counterpart on a thread of its own with an engine of its own.
 *
 *   conformance LOOP ROLE [SIZE]     ROLE: producer, consumer, broker, endings
 *
 * With event arrays of 1, 7 and 64 each: at rest nothing spins; under load every record comes once,
 * while two threads post; work that is left over is done without any new cause; a deadline of kloop's
 * ends the loop's sleep with nothing else going on. After each turn of the loop, and after each call
 * outside of it: if kloop has work, the descriptor is readable.
 *
 * Endings, for adapters: stopped in an event, after a failed poll, and ended with nothing left.
 *
 * Prints one row; a check that fails ends the program with its place on stderr. SIZE is printed in the
 * row. Wake-ups are calls of kloop_poll. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "loop.h"

enum { RECORDS = 5000, POSTS = 2000, POSTERS = 2, LEFT_OVER = 200, LINGER_MS = 60, SOON_MS = 10000 };
static const char VALUE[] = "a record of a hundred bytes; a record of a hundred bytes; a record of a hundred bytes; it ends.....";

/* The loop's side. */
static kloop_engine *engine;
static uint32_t flags; /* KLOOP_ENGINE_* */
static kloop_producer *producer;
static kloop_topic topic;
static int ready, writable;
static int stop_at_post;
static kloop_status failure, expected_failure;
static int64_t last_event_ms;
static uint64_t sent, delivered, next_offset, posted, next_post[POSTERS + 1];

/* The counterpart's. */
static struct {
  kloop_engine *engine;
  kloop_producer *producer;
  kloop_consumer *consumer;
  kloop_topic topic;
  kloop_waker *waker;
  atomic_ulong want, delivered, received;
  atomic_int stop;
} peer;

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The check that all this is about. The descriptor itself is asked, whatever the loop watches. A
 * deadline that is over by nanoseconds may reach the descriptor's clock a moment later. */
static void readable_if_work(void) {
  if (flags & KLOOP_ENGINE_NO_TIMERFD) return; /* the host obeys the timeout instead */
  struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
  if (kloop_engine_timeout(engine) == 0) CHECK_IS(poll(&watch, 1, 10), 1);
}

/* After calls outside of kloop_poll. */
static void readable_if_called(void) {
  if (!(flags & KLOOP_ENGINE_NO_AUTOWAKE)) readable_if_work();
}

static void turn(int ms) {
  loop_turn(ms);
  readable_if_work();
}

/* Turns until the condition holds; bounded, so that what is overlooked is a failure and no hang. */
#define UNTIL(condition)                                        \
  do {                                                          \
    for (int64_t since_ = now_ms(); !(condition); turn(50))     \
      if (now_ms() - since_ > SOON_MS) CHECK(!"in time: " #condition); \
  } while (0)

static uint64_t polls(void) {
  kloop_stats stats;
  CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
  return stats.polls;
}

static uint64_t bytes_out(void) {
  kloop_stats stats;
  CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
  return stats.bytes_out;
}

static uint64_t count_records(kloop_engine *e, const kloop_event *ev, uint64_t next) {
  kloop_cursor cursor;
  kloop_record record;
  CHECK_IS(kloop_records_open(e, ev, &cursor), KLOOP_OK);
  for (; kloop_records_read(&cursor, &record, 1) == 1; next++) {
    CHECK_IS(record.offset, next);
    CHECK(record.value.len == sizeof VALUE && memcmp(record.value.data, VALUE, sizeof VALUE) == 0);
  }
  return next;
}

void take_event(const kloop_event *ev) {
  last_event_ms = now_ms();
  switch (ev->type) {
    case KLOOP_EV_READY: ready = 1; break;
    case KLOOP_EV_WRITABLE: writable = 1; break;
    case KLOOP_EV_DELIVERED:
      CHECK_IS(ev->u.delivered.outcome, KLOOP_PERSISTED);
      delivered += ev->u.delivered.count;
      break;
    case KLOOP_EV_RECORDS:
      next_offset = count_records(engine, ev, next_offset);
      break;
    case KLOOP_EV_POSTED:
      if (stop_at_post) loop_stop();
      CHECK_IS(ev->user & 0xffffffffu, next_post[ev->user >> 32]++);
      posted++;
      break;
    case KLOOP_EV_ERROR: CHECK_IS(ev->status, 0); break;
    default: break;
  }
}

void poll_failed(kloop_status status) {
  CHECK_IS(status, expected_failure);
  CHECK_IS(failure, KLOOP_OK); /* told once */
  failure = status;
}

void pump_once(kloop_engine *e, uint32_t cap) {
  kloop_event events[64];
  int32_t n = kloop_poll(e, events, cap, 0);
  if (n < 0) poll_failed(n);
  for (int32_t i = 0; i < n; i++) {
    take_event(&events[i]);
    /* Not with no lease: a release looks for work, too, and would cover for a poll that forgot it. */
    if (events[i].lease) kloop_release(e, &events[i].lease, 1);
  }
  readable_if_work();
}

/* The counterpart: sends up to `want` records if it has a producer, and blocks in kloop_poll. */
static void *peer_main(void *unused) {
  kloop_event events[64];
  unsigned long taken = 0;
  uint64_t next = 0;
  (void)unused;
  CHECK_IS(kloop_engine_take(peer.engine), KLOOP_OK);
  while (!atomic_load(&peer.stop)) {
    kloop_msg msg = check_msg(peer.topic, VALUE, sizeof VALUE, 0);
    while (peer.producer && taken < atomic_load(&peer.want)) {
      int32_t took = kloop_produce(peer.producer, &msg, 1);
      CHECK(took >= 0);
      if (took == 0) break; /* an event says when to go on */
      taken++;
    }
    int32_t n = kloop_poll(peer.engine, events, 64, -1);
    CHECK(n >= 0);
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_DELIVERED) {
        CHECK_IS(events[i].u.delivered.outcome, KLOOP_PERSISTED);
        atomic_fetch_add(&peer.delivered, events[i].u.delivered.count);
      }
      if (events[i].type == KLOOP_EV_RECORDS) {
        next = count_records(peer.engine, &events[i], next);
        atomic_store(&peer.received, (unsigned long)next);
      }
      kloop_release(peer.engine, &events[i].lease, 1);
    }
  }
  kloop_engine_free(peer.engine);
  return NULL;
}

static void peer_wants(unsigned long records) {
  atomic_store(&peer.want, records);
  CHECK_IS(kloop_waker_post(peer.waker, 0), KLOOP_OK);
}

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

/* Sends up to `until` records from the loop, as far as there is room. */
static void produce(uint64_t until) {
  kloop_msg msg = check_msg(topic, VALUE, sizeof VALUE, 0);
  while (writable && sent < until) {
    int32_t took = kloop_produce(producer, &msg, 1);
    CHECK(took >= 0);
    sent += (uint64_t)took;
    if (took == 0) writable = 0;
    readable_if_called();
  }
}

enum role { PRODUCER, CONSUMER, BROKER };
static const char *const ROLES[] = {"producer", "consumer", "broker"};

struct wakeups {
  uint64_t rest, load; /* in half a second; for all records and posts */
};

static void run(const char *loop, enum role role, uint32_t cap, struct wakeups *w) {
  const kloop_prop lingers[] = {{"linger.ms", "60"}, {"batch.size", "1000"}};
  const kloop_prop waits[] = {{"fetch.max.wait.ms", "100"}};
  const kloop_prop nowhere[] = {{"bootstrap.servers", "127.0.0.1:1"},
                                {"reconnect.backoff.ms", "50"},
                                {"reconnect.backoff.max.ms", "50"}};
  kloop_engine_config config;
  kloop_error err;
  kloop_broker *broker;
  kloop_client *client = NULL, *peer_client = NULL, *lost = NULL;
  kloop_consumer *consumer = NULL;
  kloop_waker *waker;
  pthread_t peer_thread, threads[POSTERS];
  struct poster posters[POSTERS];
  char address[64];

  ready = writable = 0;
  sent = delivered = next_offset = posted = 0;
  memset(next_post, 0, sizeof next_post);
  memset(&peer, 0, sizeof peer);

  /* Small arrays go with small budgets: then turns leave bytes in the sockets, too. */
  CHECK_IS(kloop_engine_config_init(&config, sizeof config, KLOOP_ABI), KLOOP_OK);
  config.memory_limit = 8u << 20;
  /* The lazy variants poll before they wait, so calls need not wake them; a loop by hand may obey the
   * timeout, too. */
  flags = strstr(loop, "-lazy") ? KLOOP_ENGINE_NO_AUTOWAKE : 0;
  if (flags && strncmp(loop, "lib", 3) != 0) flags |= KLOOP_ENGINE_NO_TIMERFD;
  config.flags = flags;
  config.io_budget = cap == 64 ? 0 : cap * 1000;
  CHECK_IS(kloop_engine_new(&config, &engine, &err), KLOOP_OK);
  peer.engine = check_engine();
  CHECK_IS(kloop_waker_new(peer.engine, &peer.waker), KLOOP_OK);
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  CHECK(loop_begin(loop, engine, cap));

  broker = check_broker(role == BROKER ? engine : peer.engine, address, sizeof address);
  if (role != PRODUCER) {
    peer_client = check_client(peer.engine, address);
    CHECK_IS(kloop_client_topic(peer_client, "loop", 4, &peer.topic), KLOOP_OK);
    peer.producer = check_producer(peer_client, lingers, 2);
  }
  if (role == BROKER) {
    kloop_tp from = {peer.topic, 0, KLOOP_OFFSET_EARLIEST};
    peer.consumer = check_consumer(peer_client, waits, 1);
    CHECK_IS(kloop_consumer_assign(peer.consumer, &from, 1), KLOOP_OK);
    ready = 1;
  } else {
    client = check_client(engine, address);
    CHECK_IS(kloop_client_topic(client, "loop", 4, &topic), KLOOP_OK);
  }
  if (role == PRODUCER) producer = check_producer(client, lingers, 2);
  if (role == CONSUMER) {
    kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
    consumer = check_consumer(client, NULL, 0);
    CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  }
  readable_if_called();
  CHECK_IS(pthread_create(&peer_thread, NULL, peer_main, NULL), 0);
  UNTIL(ready);

  /* One record first, so that the topic is there and known. */
  if (role == PRODUCER) {
    kloop_msg msg = check_msg(topic, VALUE, sizeof VALUE, 0);
    int32_t took;
    while ((took = kloop_produce(producer, &msg, 1)) == 0) UNTIL(writable);
    CHECK_IS(took, 1);
    sent = writable = 1;
    UNTIL(delivered == 1);
  } else {
    peer_wants(1);
    if (role == CONSUMER) UNTIL(next_offset == 1);
    if (role == BROKER) UNTIL(atomic_load(&peer.received) == 1);
  }

  /* At rest; the array does not matter there. */
  uint64_t before = polls();
  if (cap == 64) {
    for (int64_t end = now_ms() + 300; now_ms() < end;) turn((int)(end - now_ms()) + 1);
    before = polls();
    for (int64_t end = now_ms() + 500; now_ms() < end;) turn((int)(end - now_ms()) + 1);
    w->rest = polls() - before;
    CHECK(w->rest <= 40);
  }

  /* Under load, and posts from two threads. */
  before = polls();
  for (int i = 0; i < POSTERS; i++) {
    posters[i].waker = waker;
    posters[i].tag = (uint64_t)i;
    CHECK_IS(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
  }
  if (role == PRODUCER) {
    UNTIL((produce(RECORDS), delivered == RECORDS && posted == POSTS * POSTERS));
  } else {
    peer_wants(RECORDS);
    if (role == CONSUMER) UNTIL(next_offset == RECORDS && posted == POSTS * POSTERS);
    if (role == BROKER)
      UNTIL(atomic_load(&peer.received) == RECORDS && atomic_load(&peer.delivered) == RECORDS &&
            posted == POSTS * POSTERS);
  }
  for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
  w->load = polls() - before;

  /* Left over: more posts than fit into an array, and nothing after them that would wake the loop. If
   * a turn sleeps, it sleeps for too long. */
  for (uint64_t i = 0; i < LEFT_OVER; i++) {
    CHECK_IS(kloop_waker_post(waker, (uint64_t)POSTERS << 32 | i), KLOOP_OK);
    readable_if_called();
  }
  int64_t since = now_ms();
  while (next_post[POSTERS] < LEFT_OVER) turn(1500);
  CHECK(last_event_ms - since < 1000);

  /* A deadline, and nothing else. */
  since = now_ms();
  if (role == PRODUCER) {
    while (delivered == RECORDS) {
      produce(RECORDS + 1);
      turn(1500);
    }
    CHECK(last_event_ms - since >= LINGER_MS - 2 && last_event_ms - since < 1000);
  } else if (role == BROKER) {
    /* Its fetches wait in the broker for 100 ms: only its clock answers them. */
    before = bytes_out();
    while (now_ms() - since < 600) turn(600);
    CHECK(bytes_out() > before);
  } else {
    /* A second client that nobody answers tries again every 50 ms. */
    kloop_conf conf;
    CHECK_IS(kloop_conf_init(&conf, sizeof conf, KLOOP_ABI), KLOOP_OK);
    conf.props = nowhere;
    conf.prop_count = 3;
    before = polls();
    CHECK_IS(kloop_client_new(engine, &conf, &lost, &err), KLOOP_OK);
    while (now_ms() - since < 800) turn(800);
    CHECK(polls() - before >= 6);
  }

  loop_end();
  kloop_client_free(lost);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  producer = NULL;
  kloop_client_free(client);
  if (role == BROKER) kloop_broker_free(broker);
  kloop_engine_free(engine);
  kloop_waker_free(waker);
  atomic_store(&peer.stop, 1);
  CHECK_IS(kloop_waker_post(peer.waker, 0), KLOOP_OK);
  pthread_join(peer_thread, NULL);
  kloop_waker_free(peer.waker);
  kloop_consumer_free(peer.consumer);
  kloop_producer_free(peer.producer);
  kloop_client_free(peer_client);
  if (role != BROKER) kloop_broker_free(broker);
}

static void *take_it(void *unused) {
  (void)unused;
  CHECK_IS(kloop_engine_take(engine), KLOOP_OK);
  return NULL;
}

static kloop_waker *begin_ending(const char *loop, uint32_t cap) {
  kloop_waker *waker;
  engine = check_engine();
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  posted = 0;
  memset(next_post, 0, sizeof next_post);
  CHECK(loop_begin(loop, engine, cap));
  for (uint64_t i = 0; i < 5; i++) CHECK_IS(kloop_waker_post(waker, i), KLOOP_OK);
  return waker;
}

static void endings(const char *loop) {
  for (uint32_t cap = 1; cap <= 64; cap += 63) {
    /* Stopped in an event: the rest of the array comes, and nothing else. */
    kloop_event events[8];
    stop_at_post = 1;
    kloop_waker *waker = begin_ending(loop, cap);
    loop_turn(1000);
    loop_turn(20);
    CHECK_IS(posted, cap == 1 ? 1 : 5);
    CHECK(!loop_watches());
    CHECK_IS(kloop_poll(engine, events, 8, 0), cap == 1 ? 4 : 0);
    stop_at_post = 0;
    loop_end();
    kloop_engine_free(engine);
    kloop_waker_free(waker);
  }
  /* A poll that fails, here since the engine went to another thread. */
  pthread_t thief;
  kloop_waker *waker = begin_ending(loop, 64);
  CHECK_IS(pthread_create(&thief, NULL, take_it, NULL), 0);
  pthread_join(thief, NULL);
  expected_failure = KLOOP_E_THREAD;
  loop_turn(1000);
  loop_turn(20);
  CHECK_IS(failure, KLOOP_E_THREAD);
  CHECK(!loop_watches());
  CHECK_IS(kloop_engine_take(engine), KLOOP_OK);
  loop_end();
  kloop_engine_free(engine);
  kloop_waker_free(waker);

  engine = check_engine();
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  loop_extra(engine, waker);
  kloop_waker_free(waker);
  printf("ok %s endings stopped in an event, after a failed poll, with nothing left behind\n", loop);
}

int main(int argc, char **argv) {
  const uint32_t caps[] = {1, 7, 64};
  struct wakeups w[3];
  int role = 0;
  CHECK(argc >= 3);
  if (strcmp(argv[2], "endings") == 0) return endings(argv[1]), 0;
  while (role < 3 && strcmp(ROLES[role], argv[2]) != 0) role++;
  CHECK(role < 3);
  for (int i = 0; i < 3; i++) run(argv[1], (enum role)role, caps[i], &w[i]);
  printf("ok %s %s size=%s wakeups=%llu/s at rest, %llu %llu %llu under load with arrays of 1 7 64\n",
         argv[1], argv[2], argc > 3 ? argv[3] : "?", (unsigned long long)w[2].rest * 2,
         (unsigned long long)w[0].load, (unsigned long long)w[1].load, (unsigned long long)w[2].load);
  return 0;
}
