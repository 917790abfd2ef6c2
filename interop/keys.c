/* Sends a record for each line of a file and prints the partition that was chosen by its key, in order.
 *
 *   keys BROKERS TOPIC FILE
 *
 * Lines are record lines (interop/README.md), of which only the key matters. */
#include "program.h"

enum { MAX_KEYS = 100000 };

static int32_t partitions[MAX_KEYS];
static uint64_t done;

static void on_event(const kloop_event *ev) {
  const kloop_ev_delivered *d = &ev->u.delivered;
  if (ev->type == KLOOP_EV_ERROR) die("error event", kloop_status_str(ev->status));
  if (ev->type != KLOOP_EV_DELIVERED) return;
  if (d->outcome != KLOOP_PERSISTED) die("not persisted", kloop_status_str(ev->status));
  for (uint32_t i = 0; i < d->count; i++) partitions[d->users[i]] = d->partition;
  done += d->count;
}

int main(int argc, char **argv) {
  char *line = NULL;
  size_t room = 0;
  uint64_t total = 0;
  kloop_msg msg;
  if (argc != 4) die("usage", "keys BROKERS TOPIC FILE");
  FILE *file = fopen(argv[3], "r");
  if (file == NULL) die(argv[3], "cannot be read");
  set_up(argv[1]);
  kloop_producer *producer = producer_with(NULL, 0);
  memset(&msg, 0, sizeof msg);
  msg.topic = topic_of(argv[2]);
  msg.value.data = "v";
  msg.value.len = 1;
  msg.partition = KLOOP_PARTITION_ANY;
  while (getline(&line, &room, file) > 0) {
    char *rest = line, *key = next_word(&rest, " \n");
    if (key == NULL || total == MAX_KEYS) die(argv[3], "an empty line, or too many");
    msg.key = parse_field(key);
    msg.user = total++;
    send_one(producer, &msg);
  }
  if (kloop_producer_flush(producer, 0) != 0) die("flush", "refused");
  while (done < total) turn(-1);
  for (uint64_t i = 0; i < total; i++) printf("%d\n", (int)partitions[i]);
  free(line);
  fclose(file);
  kloop_producer_free(producer);
  tear_down();
  return 0;
}
