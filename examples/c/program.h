/* What the example programs share: complaints, the log, options, properties, signals. A program
 * defines PROGRAM, its name, and USAGE, its usage, before it includes this. */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

#define LIKE_PRINTF __attribute__((format(printf, 1, 2)))

/* It cannot do what it was asked for: status 1. */
LIKE_PRINTF static inline _Noreturn void die(const char *format, ...) {
  va_list args;
  fflush(stdout);
  va_start(args, format);
  fputs(PROGRAM ": ", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

/* It was asked in a wrong way: status 2. */
LIKE_PRINTF static inline _Noreturn void usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs(PROGRAM ": ", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fputs("\n" USAGE, stderr);
  exit(2);
}

static inline _Noreturn void help(void) {
  fputs(USAGE, stdout);
  exit(0);
}

/* Why a call on an engine failed: Kafka's code if the cluster refused, the engine's own words if they
 * are of this call, else what the status means in general. */
static inline const char *reason(const kloop_engine *of, kloop_status status) {
  static kloop_error err;
  static char refused[96];
  kloop_engine_error(of, &err);
  int of_kafka = (kloop_status_flags(err.code) & KLOOP_IS_BROKER) != 0;
  if (status == KLOOP_E_REFUSED && of_kafka) {
    snprintf(refused, sizeof refused, "%s: %s", kloop_status_str(status), kloop_status_str(err.code));
    return refused;
  }
  return err.code == status && !of_kafka && err.msg[0] != '\0' ? err.msg : kloop_status_str(status);
}

/* A handle was not made. A property or an address that cannot be is a wrong call; err names it. */
static inline _Noreturn void not_made(const kloop_error *err) {
  if (err->code == KLOOP_E_INVALID) usage("%s", err->msg);
  die("%s", err->msg);
}

/* Of a broker, whose address has an option. */
static inline _Noreturn void no_broker(const char *listen, const kloop_error *err) {
  const char *colon = strchr(err->msg, ':');
  if (err->code == KLOOP_E_INVALID && colon != NULL && strncmp(err->msg, "listen:", 7) == 0)
    usage("--listen: '%s'%s", listen, colon);
  if (err->os_errno != 0) die("%s: %s", listen, err->msg);
  not_made(err);
}

/* The engine's log function: without one a broker that is not up is met with silence. */
static inline void write_log(void *ctx, uint32_t level, const char *msg, size_t len) {
  (void)ctx;
  fprintf(stderr, "%s %.*s\n", level == 1 ? "ERROR" : level == 2 ? "WARN" : "INFO", (int)len, msg);
}

static inline int is(const char *argument, const char *option) { return strcmp(argument, option) == 0; }

/* The argument behind option number *i. */
static inline char *value_of(char **argv, int *i) {
  if (argv[*i + 1] == NULL) usage("%s wants a value", argv[*i]);
  return argv[++*i];
}

static inline _Noreturn void unknown(const char *argument) {
  if (argument[0] == '-') usage("there is no option %s", argument);
  usage("'%s' is one argument too many", argument);
}

static inline int64_t number(const char *what, const char *text, int64_t least, int64_t most) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < least || n > most)
    usage("%s: '%s' is not a number from %lld to %lld", what, text, (long long)least, (long long)most);
  return n;
}

enum { MAX_PROPS = 64 };

struct props {
  kloop_prop list[MAX_PROPS];
  size_t count;
};

static inline void add_prop(struct props *to, const char *key, const char *value) {
  if (to->count == MAX_PROPS) usage("more than %d properties", MAX_PROPS);
  to->list[to->count].key = key;
  to->list[to->count++].value = value;
}

/* Cuts KEY=VALUE in two and gives the value. */
static inline char *cut_pair(const char *option, char *pair) {
  char *equals = strchr(pair, '=');
  if (equals == NULL || equals == pair) usage("%s wants KEY=VALUE, not '%s'", option, pair);
  *equals = '\0';
  return equals + 1;
}

/* Each handle takes its own properties and refuses the others by name. A program with one option for
 * both has to know which are the client's; .ci/readme holds this list against the source. */
static inline int is_of_client(const char *key) {
  static const char *const KEYS[] = {
      "bootstrap.servers", "client.id", "client.dns.lookup", "security.protocol",
      "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms",
      "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms",
      "request.timeout.ms", "connections.max.idle.ms", "metadata.max.age.ms",
      "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms",
      "send.buffer.bytes", "receive.buffer.bytes", "allow.auto.create.topics",
      "resolver.nameservers", "resolver.search", "resolver.ndots", "resolver.timeout.ms",
      "resolver.attempts", "resolver.rotate",
  };
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
    if (is(key, KEYS[i])) return 1;
  return 0;
}

static kloop_waker *on_signal_waker;

/* Posting is allowed in a signal handler; everything else happens in the loop. */
static inline void on_signal(int signal_number) {
  (void)!kloop_waker_post(on_signal_waker, (uint64_t)signal_number);
}

/* From now on SIGINT and SIGTERM are KLOOP_EV_POSTED events. */
static inline void signals_to(kloop_engine *engine) {
  struct sigaction action;
  kloop_status status = kloop_waker_new(engine, &on_signal_waker);
  if (status != 0) die("waker: %s", reason(engine, status));
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

/* Before the program ends: the waker must not be freed under the handler. */
static inline void signals_off(void) {
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  kloop_waker_free(on_signal_waker);
}

#endif
