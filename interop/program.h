/* What kloop's programs of the matrix share: an engine with one client, a loop, record lines.
 *
 * Each program has an `on_event` of its own. */
#ifndef PROGRAM_H
#define PROGRAM_H

#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

enum { EVENTS = 64 };

static kloop_engine *engine;
static kloop_client *client;
static int writable; /* set by KLOOP_EV_WRITABLE */

static void on_event(const kloop_event *ev);

static void die(const char *what, const char *why) {
  fflush(stdout);
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void write_log(void *ctx, uint32_t level, const char *msg, size_t len) {
  (void)ctx;
  fprintf(stderr, "kloop[%u]: %.*s\n", (unsigned)level, (int)len, msg);
}

static void set_up(const char *brokers) {
  kloop_engine_config ec;
  kloop_conf conf;
  kloop_error err;
  kloop_prop props[1];
  props[0].key = "bootstrap.servers";
  props[0].value = brokers;
  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0) die("engine", "ABI");
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("client", "ABI");
  ec.log = write_log;
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("engine", err.msg);
  conf.props = props;
  conf.prop_count = 1;
  if (kloop_client_new(engine, &conf, &client, &err) != 0) die("client", err.msg);
}

static void tear_down(void) {
  kloop_client_free(client);
  kloop_engine_free(engine);
  if (fflush(stdout) != 0) exit(1);
}

static inline kloop_topic topic_of(const char *name) {
  kloop_topic topic = 0;
  kloop_status status = kloop_client_topic(client, name, strlen(name), &topic);
  if (status != 0) die("topic", kloop_status_str(status));
  return topic;
}

static inline kloop_producer *producer_with(const kloop_prop *props, size_t count) {
  kloop_producer *producer = NULL;
  kloop_conf conf;
  kloop_error err;
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("producer", "ABI");
  conf.props = props;
  conf.prop_count = count;
  if (kloop_producer_new(client, &conf, &producer, &err) != 0) die("producer", err.msg);
  return producer;
}

/* One round: waits for events and deals with them. */
static void turn(int64_t timeout_ns) {
  kloop_event events[EVENTS];
  int32_t n = kloop_poll(engine, events, EVENTS, timeout_ns);
  if (n < 0) die("poll", kloop_status_str(n));
  for (int32_t i = 0; i < n; i++) {
    if (events[i].type == KLOOP_EV_WRITABLE) writable = 1;
    on_event(&events[i]);
    kloop_release(engine, &events[i].lease, 1);
  }
}

/* Hands a record over, if need be when there is room again. */
static inline void send_one(kloop_producer *producer, const kloop_msg *msg) {
  int32_t took;
  while ((took = kloop_produce(producer, msg, 1)) == 0) {
    writable = 0;
    while (!writable) turn(-1);
  }
  if (took < 0) die("produce", kloop_status_str(took));
}

static inline int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  die("a record line", "has a digit that is none");
  return 0;
}

/* Decodes a field in place: `-` is null, `.` empty, the rest hexadecimal. */
static inline kloop_slice parse_field(char *text) {
  kloop_slice slice = {NULL, 0};
  if (strcmp(text, "-") == 0) return slice;
  slice.data = text;
  if (strcmp(text, ".") == 0) return slice;
  slice.len = strlen(text) / 2;
  for (size_t i = 0; i < slice.len; i++)
    text[i] = (char)(nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]));
  return slice;
}

/* Cuts the next word off a line, or gives NULL. */
static inline char *next_word(char **line, const char *ends) {
  char *word = *line + strspn(*line, ends);
  if (*word == '\0') return NULL;
  *line = word + strcspn(word, ends);
  if (**line != '\0') *(*line)++ = '\0';
  return word;
}

#endif
