/* kloop's producer on the work of produce_raw.c: 100-byte records in 16 KiB batches, acks=1.
 *
 *   produce_kloop HOST:PORT RECORDS
 *
 * Prints `records_per_s=N allocations=N syscalls=N`, from the first record to the last outcome. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../examples/c/heap_count.h"
#include "kloop.h"

enum { VALUE = 100, CHUNK = 64, EVENTS = 64 };

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static kloop_engine *engine;
static uint64_t settled;
static int writable = 1;

static void turn(int64_t timeout) {
  kloop_event events[EVENTS];
  kloop_lease leases[EVENTS];
  int32_t n = kloop_poll(engine, events, EVENTS, timeout);
  if (n < 0) exit(1);
  for (int32_t i = 0; i < n; i++) {
    if (events[i].type == KLOOP_EV_WRITABLE) writable = 1;
    if (events[i].type == KLOOP_EV_DELIVERED) settled += events[i].u.delivered.count;
    leases[i] = events[i].lease;
  }
  kloop_release(engine, leases, (size_t)n);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  uint64_t total = strtoull(argv[2], NULL, 10), sent = 0, warm = 100000, start = 0;
  unsigned long heap = 0;
  kloop_client *client;
  kloop_producer *producer;
  kloop_topic topic;
  kloop_conf conf;
  kloop_error err;
  kloop_stats before, after;
  kloop_prop where = {"bootstrap.servers", argv[1]};
  kloop_prop props[] = {{"acks", "1"}, {"enable.idempotence", "false"}, {"linger.ms", "5"}};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  sched_setaffinity(0, sizeof set, &set);
  if (kloop_engine_new(NULL, &engine, &err) || kloop_conf_init(&conf, sizeof conf, KLOOP_ABI)) return 1;
  conf.props = &where;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err)) return 1;
  conf.props = props;
  conf.prop_count = 3;
  if (kloop_producer_new(client, &conf, &producer, &err)) return 1;
  if (kloop_client_topic(client, "limit", 5, &topic)) return 1;
  static unsigned char values[CHUNK][VALUE];
  static kloop_msg msgs[CHUNK];
  memset(values, 'x', sizeof values);
  for (int i = 0; i < CHUNK; i++) {
    msgs[i].value.data = values[i];
    msgs[i].value.len = VALUE;
    msgs[i].topic = topic;
    msgs[i].partition = 0;
  }
  while (settled < total) {
    while (writable && sent < total) {
      for (uint64_t i = 0; i < CHUNK; i++) {
        uint64_t number = sent + i;
        memcpy(values[i], &number, 8);
        msgs[i].user = number;
      }
      int32_t took = kloop_produce(producer, msgs, total - sent < CHUNK ? (uint32_t)(total - sent) : CHUNK);
      if (took < 0) return 1;
      if (took < CHUNK) writable = 0;
      sent += (uint64_t)took;
      if (sent % (CHUNK * 32) == 0) break;
    }
    turn(writable && sent < total ? 0 : -1);
    if (start == 0 && settled >= warm) {
      warm = settled;
      heap = heap_count();
      if (kloop_engine_stats(engine, &before, sizeof before)) return 1;
      start = now_ns();
    }
  }
  double seconds = (double)(now_ns() - start) / 1e9;
  if (kloop_engine_stats(engine, &after, sizeof after)) return 1;
  printf("records_per_s=%.0f allocations=%lu syscalls=%llu records=%llu\n", (double)(total - warm) / seconds,
         heap_count() - heap, (unsigned long long)(after.syscalls - before.syscalls),
         (unsigned long long)(total - warm));
  kloop_engine_free(engine);
  return 0;
}
