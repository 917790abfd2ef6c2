/* Sends each line of standard input as a record.
 *
 *   build/producer -b BROKERS -t TOPIC [-X KEY=VALUE]...
 *
 * Asynchronous: lines are read while earlier ones are on their way; reading stops when kloop has no
 * room. With -1 it sends one line and waits for its outcome, in `send_and_wait` below: the ten
 * lines that replace a blocking send. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

enum { MAX_PROPS = 64, EVENTS = 64 };

static kloop_engine *engine;
static kloop_producer *producer;
static unsigned long sent, persisted, lost;
static int writable = 0; /* until the topic's partitions are known */

static void die(const char *what, const char *why) {
  fprintf(stderr, "producer: %s: %s\n", what, why);
  exit(1);
}

static void on_event(const kloop_event *ev) {
  if (ev->type == KLOOP_EV_WRITABLE) writable = 1;
  if (ev->type == KLOOP_EV_ERROR) die("client", kloop_status_str(ev->status));
  if (ev->type != KLOOP_EV_DELIVERED) return;
  if (ev->u.delivered.outcome == KLOOP_PERSISTED) {
    persisted += ev->u.delivered.count;
  } else {
    lost += ev->u.delivered.count;
    fprintf(stderr, "producer: %u records not acknowledged: %s\n", ev->u.delivered.count,
            kloop_status_str(ev->status));
  }
}

static void turn(int64_t timeout_ns) {
  kloop_event events[EVENTS];
  int32_t n = kloop_poll(engine, events, EVENTS, timeout_ns);
  if (n < 0) die("poll", kloop_status_str(n));
  for (int32_t i = 0; i < n; i++) {
    on_event(&events[i]);
    kloop_release(engine, &events[i].lease, 1);
  }
}

/* One record, waited for. */
static int send_and_wait(const kloop_msg *msg) {
  unsigned long before = persisted + lost, ok = persisted;
  int32_t took;
  while ((took = kloop_produce(producer, msg, 1)) == 0) turn(-1);
  if (took < 0) die("produce", kloop_status_str(took));
  while (persisted + lost == before) turn(-1);
  return persisted > ok;
}

int main(int argc, char **argv) {
  kloop_prop props[MAX_PROPS] = {{"bootstrap.servers", NULL}};
  size_t prop_count = 0;
  const char *name = NULL;
  int one = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-1") == 0) {
      one = 1;
    } else if (i + 1 < argc && strcmp(argv[i], "-b") == 0) {
      props[0].value = argv[++i];
    } else if (i + 1 < argc && strcmp(argv[i], "-t") == 0) {
      name = argv[++i];
    } else if (i + 1 < argc && strcmp(argv[i], "-X") == 0 && prop_count + 1 < MAX_PROPS) {
      char *equals = strchr(argv[++i], '=');
      if (equals == NULL) die("-X", "wants KEY=VALUE");
      *equals = '\0';
      props[++prop_count].key = argv[i];
      props[prop_count].value = equals + 1;
    } else {
      die("usage", "producer -b BROKERS -t TOPIC [-1] [-X KEY=VALUE]...");
    }
  }
  if (props[0].value == NULL || name == NULL) die("usage", "-b BROKERS and -t TOPIC are needed");

  kloop_client *client;
  kloop_conf conf;
  kloop_error err;
  kloop_msg msg;
  memset(&msg, 0, sizeof msg);
  if (kloop_engine_new(NULL, &engine, &err) != 0) die("engine", err.msg);
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("config", "ABI");
  conf.props = props;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) die("client", err.msg);
  conf.props = props + 1;
  conf.prop_count = prop_count;
  if (kloop_producer_new(client, &conf, &producer, &err) != 0) die("producer", err.msg);
  if (kloop_client_topic(client, name, strlen(name), &msg.topic) != 0) die("topic", name);
  msg.partition = KLOOP_PARTITION_ANY;

  char *line = NULL;
  size_t room = 0;
  ssize_t len;
  while ((len = getline(&line, &room, stdin)) > 0) {
    msg.value.data = line;
    msg.value.len = (size_t)len - (line[len - 1] == '\n');
    msg.user = ++sent;
    if (one) {
      int ok = send_and_wait(&msg);
      printf("%s\n", ok ? "persisted" : "not persisted");
      return ok ? 0 : 1;
    }
    int32_t took;
    while ((took = kloop_produce(producer, &msg, 1)) == 0) {
      writable = 0;
      while (!writable) turn(-1);
    }
    if (took < 0) die("produce", kloop_status_str(took));
    if (sent % 256 == 0) turn(0);
  }
  if (kloop_producer_flush(producer, 0) != 0) die("flush", "refused");
  while (persisted + lost < sent) turn(-1);
  free(line);
  fprintf(stderr, "%lu records sent, %lu persisted\n", sent, persisted);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  return lost ? 1 : 0;
}
