/* Back-pressure as a C caller meets it: with little memory kloop takes fewer records and says with
 * one WRITABLE event when to go on; leases that a host sits on stall the consumer and show in the
 * stats; nothing is lost. */
#include "check.h"

enum { RECORDS = 20000, VALUE = 200 };

/* With every lease out a host hears of posts, which may bring one back, and does not spin. */
static void posts_pass_what_waits_for_a_lease(void) {
  const kloop_prop props[] = {{"linger.ms", "0"}, {"batch.size", "0"}};
  char address[64];
  kloop_engine_config cfg;
  kloop_engine *engine;
  kloop_topic topic;
  kloop_waker *waker;
  kloop_event event, kept;
  kloop_stats before, after;
  int took = 0;
  CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.max_leases = 1;
  CHECK_IS(kloop_engine_new(&cfg, &engine, NULL), KLOOP_OK);
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  kloop_producer *producer = check_producer(client, props, 2);
  CHECK_IS(kloop_waker_new(engine, &waker), KLOOP_OK);
  CHECK_IS(kloop_client_topic(client, "kept", 4, &topic), KLOOP_OK);
  kept.lease = 0;
  while (!kept.lease || took < 2) {
    kloop_msg msg = check_msg(topic, "v", 1, (uint64_t)took);
    if (took < 2) took += kloop_produce(producer, &msg, 1);
    if (kloop_poll(engine, &event, 1, 10000000) == 1 && event.lease) kept = event;
  }
  /* The second record's event has no lease. */
  while (kloop_poll(engine, &event, 1, 100000000) == 1) CHECK_IS(event.lease, 0);
  CHECK_IS(kloop_engine_stats(engine, &before, sizeof before), KLOOP_OK);
  CHECK_IS(kloop_poll(engine, &event, 1, 100000000), 0);
  CHECK_IS(kloop_engine_stats(engine, &after, sizeof after), KLOOP_OK);
  CHECK(after.syscalls - before.syscalls < 20);
  CHECK_IS(kloop_poll(engine, &event, 1, -1), 0); /* no sleep that nobody could end */
  CHECK_IS(kloop_waker_post(waker, 7), KLOOP_OK);
  CHECK_IS(kloop_poll(engine, &event, 1, 5000000000), 1);
  CHECK(event.type == KLOOP_EV_POSTED && event.user == 7);
  kloop_release(engine, &kept.lease, 1);
  CHECK_IS(kloop_poll(engine, &event, 1, 5000000000), 1);
  CHECK_IS(event.type, KLOOP_EV_DELIVERED);
  kloop_waker_free(waker);
  kloop_engine_free(engine);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
}

int main(void) {
  char address[64], value[VALUE];
  kloop_engine_config cfg;
  kloop_engine *engine;
  kloop_error err;
  kloop_stats stats;
  kloop_topic topic;
  uint64_t sent = 0, delivered = 0, read = 0, refusals = 0, writable_events = 0, next = 0;
  int writable = 1;
  kloop_lease sat_on[512];
  size_t sitting = 0;
  CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.memory_limit = 1;
  engine = NULL;
  CHECK_IS(kloop_engine_new(&cfg, &engine, &err), KLOOP_E_INVALID); /* below the documented least */
  CHECK(engine == NULL && err.msg[0] != 0);
  cfg.memory_limit = 4u << 20;
  CHECK_IS(kloop_engine_new(&cfg, &engine, &err), KLOOP_OK);
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  const kloop_prop props[] = {{"linger.ms", "1"}};
  kloop_producer *producer = check_producer(client, props, 1);
  kloop_consumer *consumer = check_consumer(client, NULL, 0);
  CHECK_IS(kloop_client_topic(client, "full", 4, &topic), KLOOP_OK);
  kloop_tp from = {topic, 0, KLOOP_OFFSET_EARLIEST};
  CHECK_IS(kloop_consumer_assign(consumer, &from, 1), KLOOP_OK);
  memset(value, 'x', sizeof value);
  while (delivered < RECORDS || read < RECORDS) {
    kloop_event events[16];
    while (writable && sent < RECORDS) {
      memcpy(value, &sent, sizeof sent);
      kloop_msg msg = check_msg(topic, value, sizeof value, sent);
      int32_t took = kloop_produce(producer, &msg, 1);
      CHECK(took >= 0);
      if (took == 0) {
        refusals++;
        writable = 0;
      } else {
        sent++;
      }
    }
    int32_t n = kloop_poll(engine, events, 16, 5000000000);
    CHECK(n >= 0);
    if (n == 0) { /* stalled: only by what this host sits on */
      CHECK(sitting > 0);
      CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
      CHECK_IS(stats.leases, sitting);
      kloop_release(engine, sat_on, sitting);
      sitting = 0;
      continue;
    }
    for (int32_t i = 0; i < n; i++) {
      kloop_cursor cursor;
      kloop_record record;
      if (events[i].type == KLOOP_EV_WRITABLE) {
        writable = 1;
        writable_events++;
      }
      if (events[i].type == KLOOP_EV_DELIVERED) {
        CHECK_IS(events[i].u.delivered.outcome, KLOOP_PERSISTED);
        for (uint32_t k = 0; k < events[i].u.delivered.count; k++)
          CHECK_IS(events[i].u.delivered.users[k], delivered++);
      }
      if (events[i].type == KLOOP_EV_RECORDS) {
        CHECK_IS(kloop_records_open(engine, &events[i], &cursor), KLOOP_OK);
        while (kloop_records_read(&cursor, &record, 1) == 1) {
          CHECK(record.value.len == VALUE && memcmp(record.value.data, &next, sizeof next) == 0);
          next++, read++;
        }
        /* Sit on some leases as long as there is room for them. */
        if (sitting < 512) {
          sat_on[sitting++] = events[i].lease;
          continue;
        }
      }
      kloop_release(engine, &events[i].lease, 1);
    }
    if (sitting > 3) {
      kloop_release(engine, sat_on, sitting);
      sitting = 0;
    }
  }
  kloop_release(engine, sat_on, sitting);
  CHECK(refusals > 0);
  CHECK(writable_events <= refusals + 1);
  CHECK_IS(kloop_engine_stats(engine, &stats, sizeof stats), KLOOP_OK);
  CHECK_IS(stats.leases, 0);
  CHECK(stats.mem_total <= (4u << 20) && stats.mem_used <= stats.mem_total);
  kloop_consumer_free(consumer);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
  posts_pass_what_waits_for_a_lease();
  return 0;
}
