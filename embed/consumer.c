/* The program that every row of embed/artefacts builds and runs, as C99 and as C++: an embedded
 * broker, a producer and a consumer in one loop; one record goes there and comes back.
 *
 * With NEIGHBOUR defined it shares the program with somebody else's library, which `neighbour`
 * calls; embed/appliance.c takes `one_record` and brings a main of its own. */
#include <stdio.h>
#include <string.h>

#include "kloop.h"

#ifdef NEIGHBOUR
#ifdef __cplusplus
extern "C"
#endif
int neighbour(void);
#endif

int one_record(void);

static int fail(const char *what) {
  fprintf(stderr, "consumer: %s\n", what);
  return 1;
}

/* The smallest sizes that do the work, for an appliance. */
static kloop_engine *small_engine(void) {
  kloop_engine_config cfg;
  kloop_engine *engine = NULL;
  if (kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI) != KLOOP_OK) return NULL;
  cfg.memory_limit = 4u << 20;
  cfg.max_conns = 16;
  return kloop_engine_new(&cfg, &engine, NULL) == KLOOP_OK ? engine : NULL;
}

static int read_back(kloop_engine *engine, const kloop_event *event, const char *value) {
  kloop_cursor cursor;
  kloop_record record;
  if (kloop_records_open(engine, event, &cursor) != KLOOP_OK) return 0;
  return kloop_records_read(&cursor, &record, 1) == 1 && record.value.len == strlen(value) &&
         memcmp(record.value.data, value, strlen(value)) == 0;
}

int one_record(void) {
  static const char value[] = "one record";
  kloop_engine *engine = small_engine();
  kloop_broker *broker = NULL;
  kloop_client *client = NULL;
  kloop_producer *producer = NULL;
  kloop_consumer *consumer = NULL;
  kloop_broker_conf bc;
  kloop_conf cc;
  kloop_topic topic = 0;
  kloop_tp from;
  kloop_msg msg;
  kloop_prop log_size, where;
  char address[64];
  int sent = 0, delivered = 0, received = 0, turns = 0;

  if (engine == NULL) return fail("no engine");
  if (kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != KLOOP_OK) return fail("broker conf");
  log_size.key = "log.memory.bytes", log_size.value = "4194304";
  bc.listen = "127.0.0.1:0", bc.props = &log_size, bc.prop_count = 1;
  if (kloop_broker_new(engine, &bc, &broker, NULL) != KLOOP_OK) return fail("no broker");
  if (kloop_broker_address(broker, address, sizeof address) < 0) return fail("no address");

  if (kloop_conf_init(&cc, sizeof cc, KLOOP_ABI) != KLOOP_OK) return fail("conf");
  where.key = "bootstrap.servers", where.value = address;
  cc.props = &where, cc.prop_count = 1;
  if (kloop_client_new(engine, &cc, &client, NULL) != KLOOP_OK) return fail("no client");
  if (kloop_client_topic(client, "embed", 5, &topic) != KLOOP_OK) return fail("no topic");
  cc.props = NULL, cc.prop_count = 0;
  if (kloop_producer_new(client, &cc, &producer, NULL) != KLOOP_OK) return fail("no producer");
  if (kloop_consumer_new(client, &cc, &consumer, NULL) != KLOOP_OK) return fail("no consumer");
  from.topic = topic, from.partition = 0, from.offset = KLOOP_OFFSET_EARLIEST;
  if (kloop_consumer_assign(consumer, &from, 1) != KLOOP_OK) return fail("not assigned");

  memset(&msg, 0, sizeof msg);
  msg.topic = topic, msg.partition = KLOOP_PARTITION_ANY;
  msg.value.data = value, msg.value.len = strlen(value);
  while ((!delivered || !received) && turns++ < 1000) {
    kloop_event events[8];
    int i, n;
    if (!sent) sent = kloop_produce(producer, &msg, 1);
    if (sent < 0) return fail("not taken");
    n = kloop_poll(engine, events, 8, 100000000);
    if (n < 0) return fail(kloop_status_str(n));
    for (i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_DELIVERED) delivered += events[i].status == KLOOP_OK;
      if (events[i].type == KLOOP_EV_RECORDS) received += read_back(engine, &events[i], value);
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
  if (!delivered) return fail("not delivered");
  if (!received) return fail("not received");
  if (kloop_check_unwind() != KLOOP_E_PANIC) return fail("a panic is no status");
  return 0;
}

#ifndef APPLIANCE
int main(int argc, char **argv) {
  if (kloop_version() != KLOOP_VERSION_NUM) return fail("another library than the header's");
  if (argc > 1 && strcmp(argv[1], "info") == 0) puts(kloop_build_info());
#ifdef NEIGHBOUR
  if (neighbour() != 0) return fail("the neighbour");
#endif
  if (one_record() != 0) return 1;
#ifdef NEIGHBOUR
  if (neighbour() != 0) return fail("the neighbour, after kloop");
#endif
  puts("one record");
  return 0;
}
#endif
