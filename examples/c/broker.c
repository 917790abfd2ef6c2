/* A Kafka broker on the memory log.
 *
 *   build/broker [--listen HOST:PORT] [--memory BYTES] [--set KEY=VALUE]... [--threads N]
 *
 * Keys are Kafka's broker properties; an unknown one is refused by name. Prints
 * `listening on HOST:PORT` once it takes connections (port 0 picks one). SIGTERM and SIGINT close it
 * in order, with status 0. With --threads it runs on threads of its own: one that accepts, N that read
 * and write, N that handle requests; without, in this program's loop. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

enum { MAX_PROPS = 64, EVENTS = 64 };

static kloop_waker *waker;

/* Posting is allowed in a signal handler; everything else happens in the loop. */
static void on_signal(int number) { (void)!kloop_waker_post(waker, (uint64_t)number); }

static void write_log(void *ctx, uint32_t level, const char *msg, size_t len) {
  (void)ctx;
  fprintf(stderr, "%s %.*s\n", level == 1 ? "ERROR" : level == 2 ? "WARN" : "INFO", (int)len, msg);
}

static int usage(const char *why) {
  fprintf(stderr,
          "broker: %s\nusage: broker [--listen HOST:PORT] [--memory BYTES] [--set KEY=VALUE]... "
          "[--threads N]\n",
          why);
  return 2;
}

int main(int argc, char **argv) {
  kloop_prop props[MAX_PROPS];
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_reactor_conf rc;
  kloop_engine *engine;
  kloop_broker *broker;
  kloop_error err;
  char address[64];
  int closed = 0;

  if (kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != 0) return 1;
  if (kloop_reactor_conf_init(&rc, sizeof rc, KLOOP_ABI) != 0) return 1;
  bc.listen = "127.0.0.1:9092";
  bc.props = props;
  for (int i = 1; i < argc; i++) {
    char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (value == NULL) return usage("an option without its value");
    if (bc.prop_count == MAX_PROPS) return usage("too many properties");
    if (strcmp(argv[i], "--listen") == 0) {
      bc.listen = value;
    } else if (strcmp(argv[i], "--memory") == 0) {
      props[bc.prop_count].key = "log.memory.bytes";
      props[bc.prop_count++].value = value;
    } else if (strcmp(argv[i], "--set") == 0) {
      char *equals = strchr(value, '=');
      if (equals == NULL) return usage("--set wants KEY=VALUE");
      *equals = '\0';
      props[bc.prop_count].key = value;
      props[bc.prop_count++].value = equals + 1;
    } else if (strcmp(argv[i], "--threads") == 0) {
      char *end;
      unsigned long threads = strtoul(value, &end, 10);
      if (*end != '\0' || threads < 1 || threads > 63) return usage("--threads is from 1 to 63");
      rc.processors = rc.handlers = (uint32_t)threads;
    } else {
      return usage("unknown option");
    }
    i++;
  }

  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0) return 1;
  ec.log = write_log;
  /* Touched only as it is used; a quarter is the largest request: more than Kafka's 100 MiB. */
  ec.memory_limit = sizeof(void *) > 4 ? (size_t)512 << 20 : (size_t)64 << 20;
  if (kloop_engine_new(&ec, &engine, &err) != 0 || kloop_waker_new(engine, &waker) != 0 ||
      kloop_broker_new(engine, &bc, &broker, &err) != 0 ||
      (rc.processors > 0 && kloop_broker_start(broker, &rc, &err) != 0)) {
    fprintf(stderr, "broker: %s\n", err.msg);
    return 1;
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  if (kloop_broker_address(broker, address, sizeof address) < 0) return 1;
  printf("listening on %s\n", address);
  fflush(stdout);

  while (!closed) {
    kloop_event events[EVENTS];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    poll(&watch, 1, -1); /* any loop of yours; this one has nothing else to wait for */
    int32_t n = kloop_poll(engine, events, EVENTS, 0);
    if (n < 0) {
      fprintf(stderr, "broker: %s\n", kloop_status_str(n));
      return 1;
    }
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_POSTED) kloop_broker_close(broker, 1000000000);
      if (events[i].type == KLOOP_EV_CLOSED) closed = 1;
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  kloop_broker_free(broker);
  kloop_engine_free(engine);
  kloop_waker_free(waker);
  return 0;
}
