/* A Kafka broker, a producer and a consumer in one thread, in this program's own epoll loop, over
 * real loopback sockets.
 *
 *   build/pipeline [RECORDS]
 *
 * It sends RECORDS records (5,000,000) of 100 bytes as fast as it can, but never runs more than
 * 32 MiB ahead of the consumer; checks that each comes back once, in order, unchanged; then measures
 * the latency of a record end to end at a modest fixed rate. The last line is for machines; the exit
 * status is not 0 if any figure in it is wrong. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "heap_count.h"

#define PROGRAM "pipeline"
#define USAGE                                                     \
  "usage: pipeline [RECORDS]\n"                                   \
  "  RECORDS  to send at full speed, 200001 or more; 5000000 by default\n"
#include "program.h"

enum { VALUE = 100, CHUNK = 128, RATE = 10000, SAMPLES = 20000, EVENTS = 64 };
static const uint64_t WARM_UP = 200000, LOG_CAP = 64u << 20, AHEAD = 32u << 20, SLACK = 16u << 20;

static kloop_engine *engine;
static kloop_producer *bulk, *prompt; /* the one fills batches, the other sends at once */
static kloop_topic topic;
static int ready, writable = 1, failed;
static uint64_t sent, delivered, received, mismatches;
static uint64_t latency_from = UINT64_MAX; /* the first record of the latency part */
static uint32_t latency_us[SAMPLES];
static uint64_t latencies;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A record's content follows from its number and the time it was due, so the reader can check all of
 * it. */
static void fill(unsigned char *value, uint64_t number, uint64_t due) {
  uint64_t x = number * 0x9e3779b97f4a7c15u + 1;
  memcpy(value, &number, 8);
  memcpy(value + 8, &due, 8);
  for (int i = 16; i < VALUE - 4; i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    memcpy(value + i, &x, 8);
  }
  memset(value + VALUE - 4, (int)(x & 0xff), 4);
}

static int produce(kloop_producer *to, uint64_t due, uint32_t n) {
  static unsigned char values[CHUNK][VALUE];
  static kloop_msg msgs[CHUNK];
  for (uint32_t i = 0; i < n; i++) {
    fill(values[i], sent + i, due);
    msgs[i].value.data = values[i];
    msgs[i].value.len = VALUE;
    msgs[i].topic = topic;
    msgs[i].partition = KLOOP_PARTITION_ANY;
    msgs[i].user = sent + i;
  }
  int32_t took = kloop_produce(to, msgs, n);
  if (took < 0) die("produce: %s", reason(engine, took));
  sent += (uint64_t)took;
  if ((uint32_t)took < n) writable = 0; /* KLOOP_EV_WRITABLE will say when to go on */
  return took;
}

static void on_records(const kloop_event *ev) {
  kloop_cursor cursor;
  kloop_record records[128];
  unsigned char expected[VALUE];
  int32_t n;
  if (kloop_records_open(engine, ev, &cursor) != 0) die("records_open failed");
  uint64_t now = now_ns();
  while ((n = kloop_records_read(&cursor, records, 128)) > 0) {
    for (int32_t i = 0; i < n; i++) {
      uint64_t due = 0;
      if (records[i].value.len == VALUE) memcpy(&due, (const char *)records[i].value.data + 8, 8);
      fill(expected, received, due);
      if (records[i].value.len != VALUE || memcmp(records[i].value.data, expected, VALUE) != 0 ||
          records[i].offset != (int64_t)received)
        mismatches++;
      if (received >= latency_from && latencies < SAMPLES)
        latency_us[latencies++] = (uint32_t)((now - due) / 1000);
      received++;
    }
  }
  if (n < 0) die("a fetched batch is damaged: %s", kloop_status_str(n));
}

static void on_event(const kloop_event *ev) {
  switch (ev->type) {
    case KLOOP_EV_READY: ready = 1; break;
    case KLOOP_EV_WRITABLE: writable = 1; break;
    case KLOOP_EV_RECORDS: on_records(ev); break;
    case KLOOP_EV_DELIVERED:
      if (ev->u.delivered.outcome == KLOOP_PERSISTED)
        delivered += ev->u.delivered.count;
      else
        failed = 1;
      break;
    case KLOOP_EV_ERROR: die("error event: %s", kloop_status_str(ev->status));
    default: break;
  }
}

/* One round of the host's loop: waits in the host's own epoll, then lets kloop run. */
static void turn(int epoll, int timer, int wait) {
  struct epoll_event ready_fds[2];
  kloop_event events[EVENTS];
  kloop_lease leases[EVENTS];
  size_t held = 0;
  int fds = epoll_wait(epoll, ready_fds, 2, wait ? -1 : 0);
  for (int i = 0; i < fds; i++) {
    uint64_t ticks;
    if (ready_fds[i].data.fd == timer && read(timer, &ticks, sizeof ticks) < 0) die("timer");
  }
  int32_t n = kloop_poll(engine, events, EVENTS, 0);
  if (n < 0) die("poll: %s", reason(engine, n));
  for (int32_t i = 0; i < n; i++) {
    on_event(&events[i]);
    if (events[i].lease) leases[held++] = events[i].lease;
  }
  kloop_release(engine, leases, held);
  if (failed) die("a batch was not persisted");
}

static void set_up(void) {
  kloop_error err;
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_conf cc;
  kloop_broker *broker;
  kloop_client *client;
  kloop_consumer *consumer;
  char address[64], log_bytes[24];

  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0) die("config");
  ec.memory_limit = 8u << 20;
  ec.log = write_log;
  unsigned long before = heap_count();
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("engine: %s", err.msg);
  /* Making an engine allocates. A counter that misses that would miss all that comes later, too. */
  if (heap_count() == before) die("the heap counter does not work here: it saw nothing of kloop_engine_new");

  if (kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != 0) die("config");
  snprintf(log_bytes, sizeof log_bytes, "%llu", (unsigned long long)LOG_CAP);
  kloop_prop broker_props[] = {{"log.memory.bytes", log_bytes}};
  bc.listen = "127.0.0.1:0";
  bc.props = broker_props;
  bc.prop_count = 1;
  if (kloop_broker_new(engine, &bc, &broker, &err) != 0) die("broker: %s", err.msg);
  if (kloop_broker_address(broker, address, sizeof address) < 0) die("address");
  printf("broker listens on %s, log capped at %llu MiB\n", address,
         (unsigned long long)(LOG_CAP >> 20));

  if (kloop_conf_init(&cc, sizeof cc, KLOOP_ABI) != 0) die("config");
  kloop_prop client_props[] = {{"bootstrap.servers", address}};
  cc.props = client_props;
  cc.prop_count = 1;
  if (kloop_client_new(engine, &cc, &client, &err) != 0) die("client: %s", err.msg);
  if (kloop_client_topic(client, "pipeline", 8, &topic) != 0) die("topic");

  kloop_prop bulk_props[] = {{"linger.ms", "5"}, {"batch.size", "16384"}};
  cc.props = bulk_props;
  cc.prop_count = 2;
  if (kloop_producer_new(client, &cc, &bulk, &err) != 0) die("producer: %s", err.msg);
  kloop_prop prompt_props[] = {{"linger.ms", "0"}};
  cc.props = prompt_props;
  cc.prop_count = 1;
  if (kloop_producer_new(client, &cc, &prompt, &err) != 0) die("producer: %s", err.msg);
  cc.prop_count = 0;
  if (kloop_consumer_new(client, &cc, &consumer, &err) != 0) die("consumer: %s", err.msg);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  if (kloop_consumer_assign(consumer, &from, 1) != 0) die("assign");
}

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static unsigned threads(void) {
  unsigned n = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *d; tasks && (d = readdir(tasks));) n += d->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return n;
}

static void progress(uint64_t total, uint64_t since) {
  static uint64_t last;
  uint64_t now = now_ns();
  if (now - last < 200000000u || !isatty(1)) return;
  last = now;
  printf("\r%10llu of %llu records, %.2f M/s ", (unsigned long long)received,
         (unsigned long long)total, (double)received * 1e3 / (double)(now - since + 1));
  fflush(stdout);
}

int main(int argc, char **argv) {
  uint64_t total = 5000000u;
  unsigned long heap_before = 0;
  int epoll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (argc > 1 && is(argv[1], "--help")) help();
  if (argc > 1 && argv[1][0] == '-') unknown(argv[1]);
  if (argc > 2) unknown(argv[2]);
  if (argc > 1) total = (uint64_t)number("RECORDS", argv[1], 0, INT64_MAX / VALUE);
  if (total <= WARM_UP)
    usage("%llu records are too few: the first %llu warm up and are not measured", (unsigned long long)total,
          (unsigned long long)WARM_UP);
  set_up();
  struct epoll_event watch = {.events = EPOLLIN, .data = {.fd = kloop_engine_fd(engine)}};
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, watch.data.fd, &watch) < 0) die("epoll");
  watch.data.fd = timer;
  if (timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &watch) < 0) die("timer");

  while (!ready) turn(epoll, timer, 1);
  uint64_t start = now_ns(), timed_from = 0;
  while (received < total) {
    int may = writable && sent < total && (sent - received) * VALUE < AHEAD;
    if (may) {
      uint64_t left = total - sent;
      produce(bulk, 0, left < CHUNK ? (uint32_t)left : CHUNK);
      /* Fill several batches before going round the loop. */
      if (sent % (CHUNK * 32) != 0 && writable && sent < total) continue;
    }
    turn(epoll, timer, !may);
    if (timed_from == 0 && received >= WARM_UP) {
      timed_from = received;
      start = now_ns();
      heap_before = heap_count();
    }
    progress(total, start);
  }
  double rate = (double)(received - timed_from) * 1e9 / (double)(now_ns() - start);
  unsigned long heap = heap_count() - heap_before;
  if (isatty(1)) printf("\r%60s\r", "");

  struct itimerspec tick = {{0, 1000000000 / RATE}, {0, 1000000000 / RATE}};
  timerfd_settime(timer, 0, &tick, NULL);
  latency_from = sent;
  uint64_t end = sent + SAMPLES, first_due = now_ns();
  writable = 1;
  heap_before = heap_count();
  while (received < end) {
    while (sent < end && first_due + (sent - latency_from) * (1000000000 / RATE) <= now_ns())
      if (produce(prompt, first_due + (sent - latency_from) * (1000000000 / RATE), 1) == 0) break;
    turn(epoll, timer, 1);
  }
  heap += heap_count() - heap_before;

  while (delivered < sent) turn(epoll, timer, 1);
  unsigned running = threads();
  kloop_stats stats;
  if (kloop_engine_stats(engine, &stats, sizeof stats) != 0) die("stats");
  kloop_engine_free(engine);
  qsort(latency_us, SAMPLES, sizeof latency_us[0], by_value);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  uint64_t rss = (uint64_t)usage.ru_maxrss;
  int right = sent == received && sent == end && mismatches == 0 && heap == 0 && running == 1 &&
              rss * 1024 <= LOG_CAP + SLACK;
  printf("%llu records of %d bytes sent and received, in order and unchanged: %s\n",
         (unsigned long long)sent, VALUE, mismatches ? "NO" : "yes");
  printf("%.2f million records/s; %.3f system calls a record\n", rate / 1e6,
         (double)stats.syscalls / (double)sent);
  printf("latency at %d records/s: p50 %u us, p99 %u us, p99.9 %u us\n", RATE,
         latency_us[SAMPLES / 2], latency_us[SAMPLES / 100 * 99], latency_us[SAMPLES / 1000 * 999]);
  printf("%lu heap allocations after warm-up, %u thread, peak memory %.1f MiB\n", heap, running,
         (double)rss / 1024);
  printf("demo: sent=%llu received=%llu mismatches=%llu heap_allocations=%lu threads=%u "
         "records_per_s=%.0f p50_us=%u p99_us=%u peak_rss_kib=%llu\n",
         (unsigned long long)sent, (unsigned long long)received, (unsigned long long)mismatches,
         heap, running, rate, latency_us[SAMPLES / 2], latency_us[SAMPLES / 100 * 99],
         (unsigned long long)rss);
  return right ? 0 : 1;
}
