/* Wake-ups at rest: a broker and a connected producer in one engine with nothing to do, watched from
 * outside as a host does it.
 *
 *   idle SECONDS
 *
 * Prints `wakeups_per_s=N`: how often the descriptor became readable, after the first second. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kloop.h"

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
  uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 5, wakeups = 0;
  kloop_engine *engine;
  kloop_broker *broker;
  kloop_client *client;
  kloop_producer *producer;
  kloop_topic topic;
  kloop_broker_conf bc;
  kloop_conf cc;
  char address[64];
  if (kloop_engine_new(NULL, &engine, NULL) || kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI)) return 1;
  bc.listen = "127.0.0.1:0";
  if (kloop_broker_new(engine, &bc, &broker, NULL)) return 1;
  if (kloop_broker_address(broker, address, sizeof address) < 0) return 1;
  kloop_prop where = {"bootstrap.servers", address};
  if (kloop_conf_init(&cc, sizeof cc, KLOOP_ABI)) return 1;
  cc.props = &where;
  cc.prop_count = 1;
  if (kloop_client_new(engine, &cc, &client, NULL)) return 1;
  cc.prop_count = 0;
  if (kloop_producer_new(client, &cc, &producer, NULL)) return 1;
  if (kloop_client_topic(client, "idle", 4, &topic)) return 1;
  uint64_t from = now_ns() + 1000000000u, end = from + seconds * 1000000000u, now;
  while ((now = now_ns()) < end) {
    kloop_event events[16];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    int ready = poll(&watch, 1, (int)((end - now) / 1000000u) + 1);
    if (ready > 0 && now_ns() >= from) wakeups++;
    int32_t n = kloop_poll(engine, events, 16, 0);
    for (int32_t i = 0; i < n; i++) kloop_release(engine, &events[i].lease, 1);
  }
  printf("wakeups_per_s=%.2f\n", (double)wakeups / (double)seconds);
  kloop_engine_free(engine);
  return 0;
}
