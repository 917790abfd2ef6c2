/* Sends each line of standard input as a record.
 *
 *   build/producer -b BROKERS -t TOPIC [-1] [-X KEY=VALUE]...
 *
 * One poll waits for the input and for kloop: a line leaves linger.ms after it was typed, whether or
 * not another one follows, and reading stops while kloop has no room. SIGINT and SIGTERM end it:
 * what was taken has two seconds to be acknowledged.
 *
 * With -1 it sends one line and waits for its outcome, ten seconds at most, in `send_and_wait` below:
 * the ten lines that replace a blocking send.
 *
 * -X takes the properties of the client and of the producer; README.md lists them. The status is 0 if
 * every line is acknowledged, 1 if not, 2 for a wrong call. */
#define _GNU_SOURCE
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "producer"
#define USAGE                                                        \
  "usage: producer -b BROKERS -t TOPIC [-1] [-X KEY=VALUE]...\n"     \
  "  -b BROKERS    HOST:PORT[,HOST:PORT]...\n"                       \
  "  -t TOPIC      where the lines of standard input go\n"           \
  "  -1            send one line and wait for its outcome, 10 s\n"   \
  "  -X KEY=VALUE  a property of the client or the producer\n"
#include "program.h"

enum { EVENTS = 64, READ_MORE = 64 << 10 };
static const int64_t PATIENCE = 10000000000, GRACE = 2000000000; /* nanoseconds */

static kloop_engine *engine;
static kloop_producer *producer;
static kloop_msg msg;
static unsigned long lines, sent, persisted, lost;
static uint32_t outcome = KLOOP_NOT_PERSISTED; /* of the last record */
static kloop_status why;
static int one, writable = 1, stop, over;

static void on_delivered(const kloop_event *ev) {
  const kloop_ev_delivered *d = &ev->u.delivered;
  outcome = d->outcome;
  why = ev->status;
  if (outcome == KLOOP_PERSISTED) {
    persisted += d->count;
    return;
  }
  lost += d->count;
  if (!one) fprintf(stderr, PROGRAM ": %u records not acknowledged: %s\n", d->count, kloop_status_str(why));
}

static void turn(int64_t timeout_ns) {
  kloop_event events[EVENTS];
  int32_t n = kloop_poll(engine, events, EVENTS, timeout_ns);
  if (n < 0) die("poll: %s", reason(engine, n));
  for (int32_t i = 0; i < n; i++) {
    switch (events[i].type) {
      case KLOOP_EV_WRITABLE: writable = 1; break;
      case KLOOP_EV_DELIVERED: on_delivered(&events[i]); break;
      case KLOOP_EV_POSTED: stop = 1; break;
      case KLOOP_EV_FLUSHED:
      case KLOOP_EV_CLOSED: over = 1; break;
      case KLOOP_EV_ERROR: die("cannot go on: %s", kloop_status_str(events[i].status));
      default: break;
    }
    kloop_release(engine, &events[i].lease, 1);
  }
}

/* ---- one record, waited for ---- */

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 0 if the broker has the record; else why not, or why that is not known (`outcome`). */
static kloop_status send_and_wait(const kloop_msg *record, int64_t patience_ns) {
  int64_t left, deadline = now_ns() + patience_ns;
  int32_t took = 0;
  while ((left = deadline - now_ns()) > 0) {
    if (took == 0) took = kloop_produce(producer, record, 1);
    if (took < 0) return took;
    if (persisted + lost > 0) return why;
    turn(left);
  }
  if (took > 0) outcome = KLOOP_MAYBE_PERSISTED;
  return KLOOP_E_TIMEOUT;
}

static int send_one_line(void) {
  char *line = NULL;
  size_t room = 0;
  ssize_t len = getline(&line, &room, stdin);
  if (len <= 0) die("no line on standard input");
  msg.value.data = line;
  msg.value.len = (size_t)len - (line[len - 1] == '\n');
  kloop_status status = send_and_wait(&msg, PATIENCE);
  if (status == 0)
    puts("persisted");
  else
    printf("%s: %s\n", outcome == KLOOP_MAYBE_PERSISTED ? "perhaps persisted" : "not persisted",
           reason(engine, status));
  free(line);
  return status == 0 ? 0 : 1;
}

/* ---- all lines, while they come ---- */

static char *input;
static size_t room, from, searched, to; /* lines that were read begin at `from` */
static int ended;

/* Poll said that there is something to read, so this does not wait. */
static void read_input(void) {
  if (from > 0) memmove(input, input + from, to - from);
  to -= from;
  searched -= from;
  from = 0;
  if (room - to < READ_MORE) {
    room = 2 * room + READ_MORE;
    input = realloc(input, room);
    if (input == NULL) die("no memory for a line of more than %zu bytes", to);
  }
  ssize_t n = read(STDIN_FILENO, input + to, room - to);
  if (n < 0 && errno != EINTR && errno != EAGAIN) die("standard input: %s", strerror(errno));
  if (n == 0) ended = 1;
  if (n > 0) to += (size_t)n;
}

/* Gives lines to kloop until there are no more or it has no room. */
static void send_lines(void) {
  while (writable && from < to) {
    char *end = memchr(input + searched, '\n', to - searched);
    if (end == NULL && !ended) {
      searched = to;
      return;
    }
    size_t len = end == NULL ? to - from : (size_t)(end - input) - from;
    msg.value.data = input + from;
    msg.value.len = len;
    msg.user = lines + 1;
    int32_t took = kloop_produce(producer, &msg, 1);
    if (took == 0) {
      writable = 0; /* KLOOP_EV_WRITABLE will say when to go on */
      return;
    }
    lines++;
    if (took == 1) {
      sent++;
    } else {
      lost++;
      fprintf(stderr, PROGRAM ": line %lu is not sent: %s\n", lines, reason(engine, took));
    }
    from += len + (end != NULL);
    searched = from;
  }
}

static int send_all_lines(void) {
  int flushing = 0, closing = 0;
  kloop_status status = 0;
  signals_to(engine);
  while (!over) {
    int reading = writable && !ended && !stop;
    struct pollfd watch[2] = {{.fd = kloop_engine_fd(engine), .events = POLLIN},
                              {.fd = STDIN_FILENO, .events = POLLIN}};
    poll(watch, reading ? 2 : 1, -1);
    turn(0);
    if (reading && watch[1].revents != 0) read_input();
    if (!stop) send_lines();
    if (stop && !closing) {
      closing = 1;
      over = 0; /* a flush that has just ended is not the end of the producer */
      status = kloop_producer_close(producer, GRACE);
    } else if (ended && from == to && !flushing && !closing) {
      flushing = 1;
      status = kloop_producer_flush(producer, 0);
    }
    if (status != 0) die("the end: %s", reason(engine, status));
  }
  fprintf(stderr, "%lu records sent, %lu persisted%s\n", sent, persisted,
          from < to ? ", and more was read" : "");
  return lost > 0 || persisted < sent || from < to ? 1 : 0;
}

int main(int argc, char **argv) {
  struct props client_props = {.count = 0}, producer_props = {.count = 0};
  const char *brokers = NULL, *topic = NULL;
  for (int i = 1; i < argc; i++) {
    if (is(argv[i], "--help")) {
      help();
    } else if (is(argv[i], "-1")) {
      one = 1;
    } else if (is(argv[i], "-b")) {
      brokers = value_of(argv, &i);
    } else if (is(argv[i], "-t")) {
      topic = value_of(argv, &i);
    } else if (is(argv[i], "-X")) {
      char *key = value_of(argv, &i), *value = cut_pair("-X", key);
      add_prop(is_of_client(key) ? &client_props : &producer_props, key, value);
    } else {
      unknown(argv[i]);
    }
  }
  if (brokers == NULL) usage("-b BROKERS is missing");
  if (topic == NULL) usage("-t TOPIC is missing");
  add_prop(&client_props, "bootstrap.servers", brokers);

  kloop_client *client;
  kloop_engine_config ec;
  kloop_conf conf;
  kloop_error err;
  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0 ||
      kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0)
    die("the library is older than this program");
  ec.log = write_log;
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("%s", err.msg);
  conf.props = client_props.list;
  conf.prop_count = client_props.count;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) not_made(&err);
  conf.props = producer_props.list;
  conf.prop_count = producer_props.count;
  if (kloop_producer_new(client, &conf, &producer, &err) != 0) not_made(&err);
  kloop_status status = kloop_client_topic(client, topic, strlen(topic), &msg.topic);
  if (status != 0) die("topic '%s': %s", topic, reason(engine, status));
  msg.partition = KLOOP_PARTITION_ANY;

  int failed = one ? send_one_line() : send_all_lines();
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_engine_free(engine);
  signals_off();
  free(input);
  return failed;
}
