/* Produces N numbered records, in order and with many on their way, and prints a line
 * `NUMBER OUTCOME PARTITION OFFSET` when a record has its outcome.
 *
 *   outcomes BROKERS TOPIC N
 *
 * Record number i goes to partition i % 3; its value is the number and padding. Ends when all have an
 * outcome, whatever it is. */
#include "program.h"

enum { PARTITIONS = 3, VALUE = 100 };

static uint64_t done;

static const char *name_of(uint32_t outcome) {
  switch (outcome) {
    case KLOOP_PERSISTED: return "PERSISTED";
    case KLOOP_MAYBE_PERSISTED: return "MAYBE_PERSISTED";
    default: return "NOT_PERSISTED";
  }
}

static void on_event(const kloop_event *ev) {
  const kloop_ev_delivered *d = &ev->u.delivered;
  if (ev->type == KLOOP_EV_ERROR) fprintf(stderr, "error event: %s\n", kloop_status_str(ev->status));
  if (ev->type != KLOOP_EV_DELIVERED) return;
  if (d->outcome != KLOOP_PERSISTED)
    fprintf(stderr, "%u records: %s\n", (unsigned)d->count, kloop_status_str(ev->status));
  for (uint32_t i = 0; i < d->count; i++)
    printf("%llu %s %d %lld\n", (unsigned long long)d->users[i], name_of(d->outcome),
           (int)d->partition, d->base_offset < 0 ? -1LL : (long long)(d->base_offset + i));
  done += d->count;
}

int main(int argc, char **argv) {
  char value[VALUE + 1];
  kloop_msg msg;
  if (argc != 4) die("usage", "outcomes BROKERS TOPIC N");
  uint64_t total = strtoull(argv[3], NULL, 10);
  set_up(argv[1]);
  kloop_producer *producer = producer_with(NULL, 0);
  memset(&msg, 0, sizeof msg);
  msg.topic = topic_of(argv[2]);
  msg.value.data = value;
  msg.value.len = VALUE;
  for (uint64_t i = 0; i < total; i++) {
    int digits = snprintf(value, sizeof value, "%llu ", (unsigned long long)i);
    memset(value + digits, '.', (size_t)(VALUE - digits));
    msg.partition = (int32_t)(i % PARTITIONS);
    msg.user = i;
    send_one(producer, &msg);
    if (i % 256 == 255) turn(0);
  }
  if (kloop_producer_flush(producer, 0) != 0) die("flush", "refused");
  while (done < total) turn(-1);
  kloop_producer_free(producer);
  tear_down();
  return 0;
}
