/* A Kafka broker on the memory log.
 *
 *   build/broker [--listen HOST:PORT] [--advertise HOST:PORT] [--memory BYTES] [--set KEY=VALUE]...
 *                [--threads N]
 *
 * Keys are Kafka's broker properties, README.md lists them; an unknown one is refused by name. Prints
 * `listening on HOST:PORT` once it takes connections (port 0 picks one). SIGTERM and SIGINT close it
 * in order, with status 0; a wrong call has status 2, any other failure 1. With --threads it runs on
 * threads of its own: one that accepts, N that read and write, N that handle requests; without, in
 * this program's loop. */
#define _GNU_SOURCE
#include <poll.h>

#define PROGRAM "broker"
#define USAGE                                                                                   \
  "usage: broker [--listen HOST:PORT] [--advertise HOST:PORT] [--memory BYTES]\n"              \
  "              [--set KEY=VALUE]... [--threads N]\n"                                         \
  "  --listen HOST:PORT  127.0.0.1:9092 by default; port 0 picks one\n"                         \
  "  --advertise HOST:PORT\n"                                                                   \
  "                      what clients are told to connect to; the listening address, or\n"      \
  "                      with 0.0.0.0 the one that each connected to, by default\n"             \
  "  --memory BYTES      of all logs together, 67108864 by default, at least 2097152\n"         \
  "  --set KEY=VALUE     a property of the broker\n"                                            \
  "  --threads N         so many that read and write, and so many that handle, 1 to 63\n"
#include "program.h"

enum { EVENTS = 64 };

int main(int argc, char **argv) {
  struct props props = {.count = 0};
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_reactor_conf rc;
  kloop_engine *engine;
  kloop_broker *broker;
  kloop_error err;
  char address[64];
  int closed = 0;

  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0 ||
      kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != 0 ||
      kloop_reactor_conf_init(&rc, sizeof rc, KLOOP_ABI) != 0)
    die("the library is older than this program");
  bc.listen = "127.0.0.1:9092";
  for (int i = 1; i < argc; i++) {
    if (is(argv[i], "--help")) {
      help();
    } else if (is(argv[i], "--listen")) {
      bc.listen = value_of(argv, &i);
    } else if (is(argv[i], "--advertise")) {
      bc.advertised = value_of(argv, &i);
    } else if (is(argv[i], "--memory")) {
      const char *bytes = value_of(argv, &i);
      (void)number("--memory BYTES", bytes, 1 << 21, (int64_t)1 << 46);
      add_prop(&props, "log.memory.bytes", bytes);
    } else if (is(argv[i], "--set")) {
      char *key = value_of(argv, &i), *value = cut_pair("--set", key);
      add_prop(&props, key, value);
    } else if (is(argv[i], "--threads")) {
      rc.processors = rc.handlers = (uint32_t)number("--threads", value_of(argv, &i), 1, 63);
    } else {
      unknown(argv[i]);
    }
  }
  bc.props = props.list;
  bc.prop_count = props.count;

  ec.log = write_log;
  /* Touched only as it is used; a quarter is the largest request: more than Kafka's 100 MiB. */
  ec.memory_limit = sizeof(void *) > 4 ? (size_t)512 << 20 : (size_t)64 << 20;
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("%s", err.msg);
  signals_to(engine);
  if (kloop_broker_new(engine, &bc, &broker, &err) != 0) no_broker(bc.listen, &err);
  if (rc.processors > 0 && kloop_broker_start(broker, &rc, &err) != 0) die("threads: %s", err.msg);
  int32_t port = kloop_broker_address(broker, address, sizeof address);
  if (port < 0) die("its address: %s", reason(engine, port));
  printf("listening on %s\n", address);
  fflush(stdout);

  while (!closed) {
    kloop_event events[EVENTS];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    poll(&watch, 1, -1); /* any loop of yours; this one has nothing else to wait for */
    int32_t n = kloop_poll(engine, events, EVENTS, 0);
    if (n < 0) die("poll: %s", reason(engine, n));
    for (int32_t i = 0; i < n; i++) {
      if (events[i].type == KLOOP_EV_POSTED) kloop_broker_close(broker, 1000000000);
      if (events[i].type == KLOOP_EV_CLOSED) closed = 1;
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  kloop_broker_free(broker);
  kloop_engine_free(engine);
  signals_off();
  return 0;
}
