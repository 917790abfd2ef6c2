/* What a host's choices buy: touching all memory at creation, huge pages, and asking without a pause
 * instead of waiting. Each choice runs in a process of its own, several times in turn, and what is printed
 * is the median of the runs.
 *
 *   build/choices [ROUNDS]
 *
 * One thread: a broker, a producer and a consumer. First 300,000 records as fast as they go, which touches
 * memory for the first time; the kernel's page faults during that are counted. Then single records, each
 * sent when the one before is read: the time of a round trip, and the processor time of one. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kloop.h"

enum { MEMORY = 32 << 20, BULK = 300000, SINGLE = 20000, MAX_ROUNDS = 15 };
enum { PREFAULT = 1, HUGE = 2, SPIN = 4 };

typedef struct Figures {
  double faults, p50_us, p99_us, cpu_us;
} Figures;

static const struct {
  const char *name;
  int how;
} CHOICES[] = {
    {"none: memory is touched as it is used, the host waits", 0},
    {"KLOOP_ENGINE_PREFAULT", PREFAULT},
    {"an arena of huge pages (madvise), touched before", HUGE},
    {"busy polling: timeout 0 in a spin", SPIN},
};
enum { ALL = sizeof CHOICES / sizeof CHOICES[0] };

static kloop_engine *engine;
static uint64_t delivered, received;

static void need(int true, const char *what) {
  if (true) return;
  fprintf(stderr, "choices: %s\n", what);
  exit(1);
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void turn(int spin) {
  kloop_event events[64];
  struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
  if (!spin) poll(&watch, 1, -1);
  int32_t n = kloop_poll(engine, events, 64, 0);
  need(n >= 0, "poll");
  for (int32_t i = 0; i < n; i++) {
    if (events[i].type == KLOOP_EV_DELIVERED) delivered += events[i].u.delivered.count;
    if (events[i].type == KLOOP_EV_RECORDS) received += events[i].u.records.count;
    kloop_release(engine, &events[i].lease, 1);
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static Figures run(int how) {
  static double times[SINGLE];
  char address[64];
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_conf cc;
  kloop_broker *broker;
  kloop_client *client;
  kloop_producer *bulk, *single;
  kloop_consumer *consumer;
  kloop_topic topic;
  need(!kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI), "config");
  ec.memory_limit = MEMORY;
  if (how & PREFAULT) ec.flags = KLOOP_ENGINE_PREFAULT;
  if (how & HUGE) {
    size_t size = MEMORY + (2 << 20);
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    at += (2 << 20) - (uintptr_t)at % (2 << 20);
    madvise(at, MEMORY, MADV_HUGEPAGE);
    memset(at, 0, MEMORY);
    ec.arena = at;
    ec.arena_size = MEMORY;
  }
  need(!kloop_engine_new(&ec, &engine, NULL) && !kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI), "engine");
  bc.listen = "127.0.0.1:0";
  need(!kloop_broker_new(engine, &bc, &broker, NULL), "broker");
  need(kloop_broker_address(broker, address, sizeof address) > 0, "address");
  need(!kloop_conf_init(&cc, sizeof cc, KLOOP_ABI), "config");
  kloop_prop where = {"bootstrap.servers", address}, at_once = {"linger.ms", "0"};
  cc.props = &where;
  cc.prop_count = 1;
  need(!kloop_client_new(engine, &cc, &client, NULL), "client");
  need(!kloop_client_topic(client, "choices", 7, &topic), "topic");
  cc.props = &at_once;
  need(!kloop_producer_new(client, &cc, &single, NULL), "producer");
  cc.prop_count = 0;
  need(!kloop_producer_new(client, &cc, &bulk, NULL), "producer");
  need(!kloop_consumer_new(client, &cc, &consumer, NULL), "consumer");
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  need(!kloop_consumer_assign(consumer, &from, 1), "assign");

  static const char value[100];
  kloop_msg msg = {.value = {value, sizeof value}, .topic = topic, .partition = 0};
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (uint64_t sent = 0; received < BULK;) {
    int32_t took = 1;
    for (int i = 0; i < 64 && took == 1 && sent < BULK; i++) {
      took = kloop_produce(bulk, &msg, 1);
      need(took >= 0, "produce");
      sent += (uint64_t)took;
    }
    turn(how & SPIN || took == 1);
  }
  getrusage(RUSAGE_SELF, &after);
  double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < SINGLE; i++) {
    uint64_t next = received + 1;
    double begin = seconds(CLOCK_MONOTONIC);
    need(kloop_produce(single, &msg, 1) == 1, "produce");
    while (received < next) turn(how & SPIN);
    times[i] = (seconds(CLOCK_MONOTONIC) - begin) * 1e6;
  }
  cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  qsort(times, SINGLE, sizeof times[0], by_value);
  Figures figures = {(double)(after.ru_minflt - before.ru_minflt), times[SINGLE / 2],
                     times[SINGLE / 100 * 99], cpu * 1e6 / SINGLE};
  return figures;
}

static double median(double *of, int n) {
  qsort(of, (size_t)n, sizeof of[0], by_value);
  return of[n / 2];
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5;
  static Figures all[ALL][MAX_ROUNDS];
  need(rounds >= 1 && rounds <= MAX_ROUNDS, "from 1 to 15 rounds");
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < ALL; i++) {
      int ends[2], status;
      need(pipe(ends) == 0, "pipe");
      pid_t child = fork();
      if (child == 0) {
        Figures figures = run(CHOICES[i].how);
        _exit(write(ends[1], &figures, sizeof figures) != sizeof figures);
      }
      close(ends[1]);
      need(read(ends[0], &all[i][round], sizeof all[i][round]) == sizeof all[i][round], "a run failed");
      close(ends[0]);
      need(waitpid(child, &status, 0) == child && status == 0, "a run failed");
    }
  }
  printf("%-52s %12s %8s %8s %8s\n", "", "page faults", "p50 us", "p99 us", "cpu us");
  for (int i = 0; i < ALL; i++) {
    double faults[MAX_ROUNDS], p50[MAX_ROUNDS], p99[MAX_ROUNDS], cpu[MAX_ROUNDS];
    for (int k = 0; k < rounds; k++) {
      faults[k] = all[i][k].faults;
      p50[k] = all[i][k].p50_us;
      p99[k] = all[i][k].p99_us;
      cpu[k] = all[i][k].cpu_us;
    }
    printf("%-52s %12.0f %8.1f %8.1f %8.1f\n", CHOICES[i].name, median(faults, rounds), median(p50, rounds),
           median(p99, rounds), median(cpu, rounds));
  }
  return 0;
}
