/* Prints the values of a topic's records, a line each.
 *
 *   build/consumer -b BROKERS -t TOPIC [-p PARTITION] [-o earliest|latest|OFFSET] [-e]
 *                  [-X KEY=VALUE]...
 *
 * -e ends when the partition's end is reached. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

enum { MAX_PROPS = 64, EVENTS = 64 };

static kloop_engine *engine;
static int stop_at_end, done;

static void die(const char *what, const char *why) {
  fprintf(stderr, "consumer: %s: %s\n", what, why);
  exit(1);
}

static void print_records(const kloop_event *ev) {
  kloop_cursor cursor;
  kloop_record records[64];
  int32_t n;
  if (kloop_records_open(engine, ev, &cursor) != 0) die("records", "cannot be opened");
  while ((n = kloop_records_read(&cursor, records, 64)) > 0) {
    for (int32_t i = 0; i < n; i++) {
      if (records[i].value.len) fwrite(records[i].value.data, 1, records[i].value.len, stdout);
      putchar('\n');
    }
  }
  if (n < 0) die("records", kloop_status_str(n));
}

static void on_event(const kloop_event *ev) {
  switch (ev->type) {
    case KLOOP_EV_RECORDS: print_records(ev); break;
    case KLOOP_EV_EOF: done = stop_at_end; break;
    case KLOOP_EV_ERROR: die("partition", kloop_status_str(ev->status));
    default: break;
  }
}

int main(int argc, char **argv) {
  kloop_prop props[MAX_PROPS] = {{"bootstrap.servers", NULL}, {"enable.partition.eof", "true"}};
  size_t prop_count = 1;
  const char *name = NULL;
  kloop_tp from = {0, 0, KLOOP_OFFSET_LATEST};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-e") == 0) {
      stop_at_end = 1;
      continue;
    }
    if (i + 1 >= argc) die("usage", "an option without its value");
    char *value = argv[i + 1];
    if (strcmp(argv[i], "-b") == 0) {
      props[0].value = value;
    } else if (strcmp(argv[i], "-t") == 0) {
      name = value;
    } else if (strcmp(argv[i], "-p") == 0) {
      from.partition = atoi(value);
    } else if (strcmp(argv[i], "-o") == 0) {
      if (strcmp(value, "earliest") == 0)
        from.offset = KLOOP_OFFSET_EARLIEST;
      else if (strcmp(value, "latest") != 0)
        from.offset = atoll(value);
    } else if (strcmp(argv[i], "-X") == 0 && prop_count + 1 < MAX_PROPS) {
      char *equals = strchr(value, '=');
      if (equals == NULL) die("-X", "wants KEY=VALUE");
      *equals = '\0';
      props[++prop_count].key = value;
      props[prop_count].value = equals + 1;
    } else {
      die("usage", "consumer -b BROKERS -t TOPIC [-p PARTITION] [-o OFFSET] [-e]");
    }
    i++;
  }
  if (props[0].value == NULL || name == NULL) die("usage", "-b BROKERS and -t TOPIC are needed");

  kloop_client *client;
  kloop_consumer *consumer;
  kloop_conf conf;
  kloop_error err;
  if (kloop_engine_new(NULL, &engine, &err) != 0) die("engine", err.msg);
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("config", "ABI");
  conf.props = props;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) die("client", err.msg);
  conf.props = props + 1;
  conf.prop_count = prop_count;
  if (kloop_consumer_new(client, &conf, &consumer, &err) != 0) die("consumer", err.msg);
  if (kloop_client_topic(client, name, strlen(name), &from.topic) != 0) die("topic", name);
  int32_t status = kloop_consumer_assign(consumer, &from, 1);
  if (status != 0) die("assign", kloop_status_str(status));

  while (!done) {
    kloop_event events[EVENTS];
    int32_t n = kloop_poll(engine, events, EVENTS, -1);
    if (n < 0) die("poll", kloop_status_str(n));
    for (int32_t i = 0; i < n; i++) {
      on_event(&events[i]);
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  fflush(stdout);
  kloop_consumer_free(consumer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  return 0;
}
