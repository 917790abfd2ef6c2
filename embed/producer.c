/* The smallest producer, for its size: sends the record of argv[3] to the topic argv[2] at argv[1]. */
#include <stdio.h>
#include <string.h>

#include "kloop.h"

int main(int argc, char **argv) {
  kloop_engine *engine;
  kloop_client *client;
  kloop_producer *producer;
  kloop_conf cc;
  kloop_topic topic;
  kloop_prop where;
  kloop_msg msg;
  int sent = 0;
  if (argc != 4) return 2;
  if (kloop_engine_new(NULL, &engine, NULL) || kloop_conf_init(&cc, sizeof cc, KLOOP_ABI)) return 1;
  where.key = "bootstrap.servers", where.value = argv[1];
  cc.props = &where, cc.prop_count = 1;
  if (kloop_client_new(engine, &cc, &client, NULL)) return 1;
  if (kloop_client_topic(client, argv[2], strlen(argv[2]), &topic)) return 1;
  cc.prop_count = 0;
  if (kloop_producer_new(client, &cc, &producer, NULL)) return 1;
  memset(&msg, 0, sizeof msg);
  msg.topic = topic, msg.partition = KLOOP_PARTITION_ANY;
  msg.value.data = argv[3], msg.value.len = strlen(argv[3]);
  for (;;) {
    kloop_event events[8];
    int i, n;
    if (!sent) sent = kloop_produce(producer, &msg, 1);
    n = kloop_poll(engine, events, 8, 1000000000);
    if (n < 0 || sent < 0) return 1;
    for (i = 0; i < n; i++) {
      int over = events[i].type == KLOOP_EV_DELIVERED, status = events[i].status;
      kloop_release(engine, &events[i].lease, 1);
      if (over) return status != KLOOP_OK;
    }
  }
}
