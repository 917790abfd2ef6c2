/* A Kafka proxy: a broker and a client on one engine, in one thread. It answers ApiVersions itself
 * and forwards every other request that it advertises to the cluster behind it; where an answer names
 * brokers, it puts its own address there, so that clients stay with it.
 *
 *   build/proxy -b BROKERS [--listen HOST:PORT]
 *
 * Prints `listening on HOST:PORT` once it takes connections. SIGTERM and SIGINT end it with status 0.
 * It advertises what Apache Kafka 4.x does, so that is what must be behind it. A frame of either side
 * is at most 1 MiB: set fetch.max.bytes of the clients accordingly. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kloop.h"

enum { METADATA = 3, FIND_COORDINATOR = 10, EVENTS = 64, ROOM = 1 << 20 };

/* Produce, Fetch, ListOffsets, Metadata, offsets and groups, CreateTopics, DeleteTopics,
 * InitProducerId, OffsetForLeaderEpoch. */
static const int FORWARDED[] = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 19, 20, 22, 23};

static kloop_engine *engine;
static kloop_broker *broker;
static kloop_client *client;
static kloop_waker *waker;
static char host[64];
static uint32_t port;
static int closing;

static void on_signal(int number) { (void)!kloop_waker_post(waker, (uint64_t)number); }

static void write_log(void *ctx, uint32_t level, const char *msg, size_t len) {
  (void)ctx;
  fprintf(stderr, "%u %.*s\n", level, (int)len, msg);
}

/* ---- answers that name brokers: copied field by field, hosts and ports replaced ---- */

struct copy {
  const unsigned char *in, *end;
  unsigned char *out;
  size_t len;
  int flexible, bad;
};

static const unsigned char *take(struct copy *c, size_t n) {
  const unsigned char *at = c->in;
  if (c->bad || (size_t)(c->end - c->in) < n) {
    c->bad = 1;
    return NULL;
  }
  c->in += n;
  return at;
}

static void put(struct copy *c, const void *bytes, size_t n) {
  if (c->bad || bytes == NULL || c->len + n > ROOM) {
    c->bad = 1;
    return;
  }
  memcpy(c->out + c->len, bytes, n);
  c->len += n;
}

static void same(struct copy *c, size_t n) { put(c, take(c, n), n); }

static uint32_t varint(struct copy *c) {
  uint32_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    const unsigned char *byte = take(c, 1);
    if (byte == NULL) return 0;
    value |= (uint32_t)(*byte & 0x7f) << shift;
    if (*byte < 0x80) return value;
  }
  c->bad = 1;
  return 0;
}

static void put_varint(struct copy *c, uint32_t value) {
  unsigned char bytes[5];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (unsigned char)(value | 0x80);
  bytes[n++] = (unsigned char)value;
  put(c, bytes, n);
}

/* A string's length; 0 for null too. */
static size_t string_len(struct copy *c) {
  if (c->flexible) {
    uint32_t n = varint(c);
    return n ? n - 1 : 0;
  }
  const unsigned char *n = take(c, 2);
  return n == NULL || n[0] & 0x80 ? 0 : (size_t)(n[0] << 8 | n[1]);
}

static void same_string(struct copy *c) {
  const unsigned char *from = c->in;
  take(c, string_len(c));
  put(c, from, (size_t)(c->in - from));
}

static void own_address(struct copy *c) {
  unsigned char number[4] = {0, 0, (unsigned char)(port >> 8), (unsigned char)port};
  size_t len = strlen(host);
  take(c, string_len(c));
  take(c, 4);
  if (c->flexible) {
    put_varint(c, (uint32_t)len + 1);
  } else {
    unsigned char short_len[2] = {0, (unsigned char)len};
    put(c, short_len, 2);
  }
  put(c, host, len);
  put(c, number, 4);
}

static uint32_t array(struct copy *c) {
  uint32_t n = 0;
  if (c->flexible) {
    n = varint(c);
    put_varint(c, n);
    return n ? n - 1 : 0;
  }
  const unsigned char *count = c->in;
  same(c, 4);
  if (!c->bad) n = (uint32_t)count[0] << 24 | (uint32_t)count[1] << 16 | (uint32_t)count[2] << 8 | count[3];
  return n > (size_t)(c->end - c->in) ? 0 : n;
}

static void tags(struct copy *c) {
  if (!c->flexible) return;
  uint32_t n = varint(c);
  put_varint(c, n);
  while (n-- > 0 && !c->bad) {
    put_varint(c, varint(c));
    uint32_t size = varint(c);
    put_varint(c, size);
    same(c, size);
  }
}

static void metadata(struct copy *c, int version) {
  c->flexible = version >= 9;
  if (version >= 3) same(c, 4); /* throttle time */
  for (uint32_t n = array(c); n > 0 && !c->bad; n--) {
    same(c, 4); /* node id */
    own_address(c);
    if (version >= 1) same_string(c); /* rack */
    tags(c);
  }
}

static void find_coordinator(struct copy *c, int version) {
  uint32_t n = 1;
  c->flexible = version >= 3;
  if (version >= 1) same(c, 4); /* throttle time */
  if (version >= 4) n = array(c);
  for (; n > 0 && !c->bad; n--) {
    if (version >= 4) same_string(c); /* key */
    if (version < 4) same(c, 2);      /* error */
    if (version >= 1 && version < 4) same_string(c);
    same(c, 4); /* node id */
    own_address(c);
    if (version >= 4) {
      same(c, 2);
      same_string(c);
      tags(c);
    }
  }
}

static kloop_slice rewritten(const kloop_event *ev) {
  static unsigned char room[ROOM];
  kloop_slice answer = {ev->u.request.body, ev->u.request.body_len};
  struct copy c = {.in = answer.data, .end = (const unsigned char *)answer.data + answer.len, .out = room};
  if (ev->u.request.api_key == METADATA)
    metadata(&c, ev->u.request.api_version);
  else if (ev->u.request.api_key == FIND_COORDINATOR)
    find_coordinator(&c, ev->u.request.api_version);
  else
    return answer;
  same(&c, (size_t)(c.end - c.in));
  if (!c.bad) answer.data = room, answer.len = c.len;
  return answer;
}

/* ---- forwarding: the request's id travels as the token of the forwarded one ---- */

static void hang_up(kloop_id request) {
  kloop_slice nothing = {"", 0};
  (void)!kloop_broker_respond(broker, request, &nothing, 0, KLOOP_RESPOND_CLOSE, 0);
}

static void on_event(const kloop_event *ev) {
  switch (ev->type) {
    case KLOOP_EV_REQUEST: {
      kloop_slice body = {ev->u.request.body, ev->u.request.body_len};
      kloop_status status = kloop_client_request(client, -1, (int16_t)ev->u.request.api_key,
                                                 (int16_t)ev->u.request.api_version, body,
                                                 ev->u.request.id, NULL);
      if (status != 0) hang_up(ev->u.request.id); /* the client tries again by itself */
      break;
    }
    case KLOOP_EV_REPLY: {
      kloop_slice answer = rewritten(ev);
      if (ev->status != 0 || kloop_broker_respond(broker, ev->user, &answer, 1, 0, 0) != 0) hang_up(ev->user);
      break;
    }
    case KLOOP_EV_POSTED: closing = 1; break;
    default: break;
  }
}

static int usage(void) {
  fprintf(stderr, "usage: proxy -b BROKERS [--listen HOST:PORT]\n");
  return 2;
}

int main(int argc, char **argv) {
  kloop_prop upstream = {"bootstrap.servers", NULL};
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_conf cc;
  kloop_error err;
  uint64_t apis[2] = {0, 0};
  if (kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != 0) return 1;
  bc.listen = "127.0.0.1:9092";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "-b") == 0)
      upstream.value = argv[i + 1];
    else if (strcmp(argv[i], "--listen") == 0)
      bc.listen = argv[i + 1];
    else
      return usage();
  }
  if (upstream.value == NULL) return usage();
  for (size_t i = 0; i < sizeof FORWARDED / sizeof *FORWARDED; i++) apis[FORWARDED[i] / 64] |= 1ull << FORWARDED[i] % 64;
  bc.host_apis = apis;
  bc.host_api_words = 2;
  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0) return 1;
  ec.log = write_log;
  if (kloop_conf_init(&cc, sizeof cc, KLOOP_ABI) != 0) return 1;
  cc.props = &upstream;
  cc.prop_count = 1;
  if (kloop_engine_new(&ec, &engine, &err) != 0 || kloop_waker_new(engine, &waker) != 0 ||
      kloop_client_new(engine, &cc, &client, &err) != 0 ||
      kloop_broker_new(engine, &bc, &broker, &err) != 0) {
    fprintf(stderr, "proxy: %s\n", err.msg);
    return 1;
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  int32_t bound = kloop_broker_address(broker, host, sizeof host);
  if (bound < 0) return 1;
  port = (uint32_t)bound;
  printf("listening on %s\n", host);
  fflush(stdout);
  *strrchr(host, ':') = '\0';

  while (!closing) {
    kloop_event events[EVENTS];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    poll(&watch, 1, -1);
    int32_t n = kloop_poll(engine, events, EVENTS, 0);
    if (n < 0) return 1;
    for (int32_t i = 0; i < n; i++) {
      on_event(&events[i]);
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  kloop_broker_free(broker);
  kloop_client_free(client);
  kloop_engine_free(engine);
  kloop_waker_free(waker);
  return 0;
}
