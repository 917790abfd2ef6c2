/* The few assertion macros that the programs share. A failed check says where and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

#define CHECK_IS(call, expected)                                                          \
  do {                                                                                    \
    long long is_ = (long long)(call), wanted_ = (long long)(expected);                   \
    if (is_ != wanted_) {                                                                 \
      fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #call, is_, wanted_); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

/* An engine with small memory, which every program needs. */
static inline kloop_engine *check_engine(void) {
  kloop_engine_config cfg;
  kloop_engine *engine = NULL;
  kloop_error err;
  CHECK_IS(kloop_engine_config_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.memory_limit = 8u << 20;
  if (kloop_engine_new(&cfg, &engine, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(engine != NULL);
  return engine;
}

/* A broker on a free loopback port; its address goes to `address`. */
static inline kloop_broker *check_broker(kloop_engine *engine, char *address, size_t cap) {
  kloop_broker_conf cfg;
  kloop_broker *broker = NULL;
  kloop_error err;
  const kloop_prop props[] = {{"log.memory.bytes", "8388608"}};
  CHECK_IS(kloop_broker_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.listen = "127.0.0.1:0";
  cfg.user = 1;
  cfg.props = props;
  cfg.prop_count = 1;
  if (kloop_broker_new(engine, &cfg, &broker, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(broker != NULL);
  CHECK(kloop_broker_address(broker, address, cap) > 0);
  return broker;
}

static inline kloop_client *check_client(kloop_engine *engine, const char *address) {
  kloop_conf cfg;
  kloop_client *client = NULL;
  kloop_error err;
  kloop_prop props[1];
  props[0].key = "bootstrap.servers";
  props[0].value = address;
  CHECK_IS(kloop_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.user = 2;
  cfg.props = props;
  cfg.prop_count = 1;
  if (kloop_client_new(engine, &cfg, &client, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(client != NULL);
  return client;
}

static inline kloop_producer *check_producer(kloop_client *client, const kloop_prop *props, size_t n) {
  kloop_conf cfg;
  kloop_producer *producer = NULL;
  kloop_error err;
  CHECK_IS(kloop_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.user = 3;
  cfg.props = props;
  cfg.prop_count = n;
  if (kloop_producer_new(client, &cfg, &producer, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(producer != NULL);
  return producer;
}

static inline kloop_consumer *check_consumer(kloop_client *client, const kloop_prop *props, size_t n) {
  kloop_conf cfg;
  kloop_consumer *consumer = NULL;
  kloop_error err;
  CHECK_IS(kloop_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.user = 4;
  cfg.props = props;
  cfg.prop_count = n;
  if (kloop_consumer_new(client, &cfg, &consumer, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(consumer != NULL);
  return consumer;
}

static inline kloop_msg check_msg(kloop_topic topic, const void *value, size_t len, uint64_t user) {
  kloop_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.topic = topic;
  msg.partition = KLOOP_PARTITION_ANY;
  msg.value.data = value;
  msg.value.len = len;
  msg.user = user;
  return msg;
}

#endif
