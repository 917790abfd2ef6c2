/* A Kafka proxy: a broker and a client on one engine, in one thread. Every request is forwarded to
 * the broker behind it; where an answer names brokers, the proxy puts its own address there, so that
 * clients stay with it. What a client may ask for is what the broker behind serves.
 *
 *   build/proxy -b BROKERS [--listen HOST:PORT]
 *
 * Prints `listening on HOST:PORT` once it takes connections; that address is also what clients are
 * told. SIGTERM and SIGINT end it with status 0; a wrong call has status 2, any other failure 1.
 *
 * All clients share the proxy's few connections, so some things cannot be forwarded honestly:
 *  - SaslHandshake and SaslAuthenticate: they would log in the proxy, not the client. Not offered.
 *  - A choice among brokers: they all have the proxy's address, and it asks any of them. One broker
 *    must be behind it; it warns if there are more.
 *  - Requests that a broker holds back (JoinGroup, SyncGroup, Fetch) hold back those of other clients
 *    behind them. A group of several members gets together slowly.
 *  - A produce with acks=0 goes on with acks=1, because the proxy has to know its end.
 * A frame is at most a quarter of the engine's memory, 8 MiB here; 64 requests at once are the most,
 * one more costs its client the connection, and the client tries again. */
#define _GNU_SOURCE
#include <poll.h>

#define PROGRAM "proxy"
#define USAGE                                                                  \
  "usage: proxy -b BROKERS [--listen HOST:PORT]\n"                             \
  "  -b BROKERS          HOST:PORT[,HOST:PORT]... of the broker behind\n"      \
  "  --listen HOST:PORT  127.0.0.1:9092 by default; port 0 picks one\n"
#include "program.h"

enum { EVENTS = 64, ROOM = 8 << 20, REQUESTS = 64 };
enum { PRODUCE = 0, METADATA = 3, FIND_COORDINATOR = 10, API_VERSIONS = 18, DESCRIBE_CLUSTER = 60 };
enum { UNSUPPORTED_VERSION = 35 };

/* What is forwarded, by API key; NULL is not: what brokers keep to themselves, and authentication. */
static const char *const NAMES[] = {
    "Produce", "Fetch", "ListOffsets", "Metadata", NULL, NULL, NULL, NULL, "OffsetCommit",
    "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup",
    "DescribeGroups", "ListGroups", NULL, "ApiVersions", "CreateTopics", "DeleteTopics",
    /* 21 */ "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn",
    "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeAcls", "CreateAcls",
    /* 31 */ "DeleteAcls", "DescribeConfigs", "AlterConfigs", "AlterReplicaLogDirs", "DescribeLogDirs",
    NULL, "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
    /* 41 */ "DescribeDelegationToken", "DeleteGroups", "ElectLeaders", "IncrementalAlterConfigs",
    "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete", "DescribeClientQuotas",
    "AlterClientQuotas", "DescribeUserScramCredentials",
    /* 51 */ "AlterUserScramCredentials", NULL, NULL, NULL, "DescribeQuorum", NULL, "UpdateFeatures",
    NULL, NULL, "DescribeCluster",
    /* 61 */ "DescribeProducers", NULL, NULL, "UnregisterBroker", "DescribeTransactions",
    "ListTransactions", NULL, "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", NULL,
    /* 71 */ "GetTelemetrySubscriptions", "PushTelemetry", NULL, "ListConfigResources",
    "DescribeTopicPartitions", "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch",
    "ShareAcknowledge", "AddRaftVoter",
    /* 81 */ "RemoveRaftVoter", NULL, "InitializeShareGroupState", "ReadShareGroupState",
    "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary",
    "StreamsGroupHeartbeat", "StreamsGroupDescribe", "DescribeShareGroupOffsets",
    /* 91 */ "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
};
enum { KEYS = sizeof NAMES / sizeof NAMES[0] };

static kloop_engine *engine;
static kloop_broker *broker;
static kloop_client *client;
static char host[64];
static uint32_t port;
static uint64_t forwarded[2]; /* the bit set of all that have a name above */
static int closing;

/* One line for an API that fails, until it works again or fails in another way. */
static void complain(int key, int version, kloop_status status, const char *what) {
  static kloop_status told[KEYS];
  if (told[key] == status) return;
  told[key] = status;
  if (status != 0) fprintf(stderr, "WARN %s version %d: %s\n", NAMES[key], version, what);
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

/* An array's length; 0 for null too. */
static uint32_t array_len(struct copy *c) {
  if (c->flexible) {
    uint32_t n = varint(c);
    return n ? n - 1 : 0;
  }
  const unsigned char *n = take(c, 4);
  if (n == NULL || n[0] & 0x80) return 0;
  return (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
}

static uint32_t array(struct copy *c) {
  const unsigned char *from = c->in;
  uint32_t n = array_len(c);
  put(c, from, (size_t)(c->in - from));
  return n;
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

/* The APIs that the broker behind serves, without those that are not forwarded. */
static void api_versions(struct copy *c, int version) {
  c->flexible = version >= 3;
  same(c, 2); /* error */
  uint32_t n = array_len(c), kept = 0;
  unsigned char *entries = c->out + c->len + 4; /* behind room for their number, which follows */
  struct copy kept_ones = {.in = c->in, .end = c->end, .out = entries, .flexible = c->flexible};
  for (; n > 0 && !kept_ones.bad; n--) {
    size_t before = kept_ones.len;
    const unsigned char *key = kept_ones.in;
    same(&kept_ones, 6); /* key, smallest and largest version */
    tags(&kept_ones);
    if (kept_ones.bad) break;
    int number_of = key[0] << 8 | key[1];
    if (number_of < KEYS && NAMES[number_of] != NULL)
      kept++;
    else
      kept_ones.len = before;
  }
  c->bad |= kept_ones.bad;
  c->in = kept_ones.in;
  if (c->flexible) {
    put_varint(c, kept + 1);
  } else {
    unsigned char count[4] = {0, 0, (unsigned char)(kept >> 8), (unsigned char)kept};
    put(c, count, 4);
  }
  if (!c->bad) memmove(c->out + c->len, entries, kept_ones.len);
  c->len += kept_ones.len;
}

static void metadata(struct copy *c, int version) {
  static int told;
  c->flexible = version >= 9;
  if (version >= 3) same(c, 4); /* throttle time */
  uint32_t n = array(c);
  if (n > 1 && !told++)
    fprintf(stderr, "WARN %u brokers are behind this proxy, it cannot keep them apart\n", n);
  for (; n > 0 && !c->bad; n--) {
    same(c, 4); /* node id */
    own_address(c);
    if (version >= 1) same_string(c); /* rack */
    tags(c);
  }
}

static void describe_cluster(struct copy *c, int version) {
  c->flexible = 1;
  same(c, 4 + 2); /* throttle time, error */
  same_string(c);
  if (version >= 1) same(c, 1); /* endpoint type */
  same_string(c);               /* cluster id */
  same(c, 4);                   /* controller */
  for (uint32_t n = array(c); n > 0 && !c->bad; n--) {
    same(c, 4); /* node id */
    own_address(c);
    same_string(c);               /* rack */
    if (version >= 2) same(c, 1); /* fenced */
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

/* The answer as the client is to have it; no data if it is not what its version allows. */
static kloop_slice rewritten(const kloop_event *ev) {
  static unsigned char room[ROOM + 64]; /* `api_versions` puts its entries behind a gap */
  kloop_slice answer = {ev->u.request.body, ev->u.request.body_len};
  struct copy c = {.in = answer.data, .end = (const unsigned char *)answer.data + answer.len, .out = room};
  switch (ev->u.request.api_key) {
    case METADATA: metadata(&c, ev->u.request.api_version); break;
    case FIND_COORDINATOR: find_coordinator(&c, ev->u.request.api_version); break;
    case API_VERSIONS: api_versions(&c, ev->u.request.api_version); break;
    case DESCRIBE_CLUSTER: describe_cluster(&c, ev->u.request.api_version); break;
    default: return answer;
  }
  same(&c, (size_t)(c.end - c.in));
  return c.bad ? (kloop_slice){NULL, 0} : (kloop_slice){room, c.len};
}

/* ---- forwarding: the request's id travels as the token of the forwarded one ---- */

static kloop_id silent[REQUESTS]; /* produces whose clients wait for no answer */

static int take_silent(kloop_id request) {
  for (size_t i = 0; i < REQUESTS; i++)
    if (silent[i] == request) return silent[i] = 0, 1;
  return 0;
}

static void hang_up(kloop_id request) {
  (void)!kloop_broker_respond(broker, request, NULL, 0, KLOOP_RESPOND_CLOSE, 0);
}

/* A produce with acks=0 has no answer. With acks=1 it has one, for the proxy. */
static kloop_slice with_acks(const kloop_event *ev, kloop_slice body) {
  static unsigned char room[ROOM];
  struct copy c = {.in = body.data, .end = (const unsigned char *)body.data + body.len};
  c.flexible = ev->u.request.api_version >= 9;
  if (ev->u.request.api_version >= 3) take(&c, string_len(&c)); /* transactional id */
  size_t at = body.len - (size_t)(c.end - c.in);
  const unsigned char *acks = take(&c, 2);
  if (acks == NULL || acks[0] != 0 || acks[1] != 0 || body.len > ROOM) return body;
  for (size_t i = 0; i < REQUESTS; i++) {
    if (silent[i] != 0) continue;
    silent[i] = ev->u.request.id;
    memcpy(room, body.data, body.len);
    room[at + 1] = 1;
    return (kloop_slice){room, body.len};
  }
  return body;
}

static void on_request(const kloop_event *ev) {
  kloop_slice body = {ev->u.request.body, ev->u.request.body_len};
  int key = ev->u.request.api_key, version = ev->u.request.api_version;
  if (key == PRODUCE) body = with_acks(ev, body);
  kloop_status status =
      kloop_client_request(client, -1, (int16_t)key, (int16_t)version, body, ev->u.request.id, NULL);
  if (status == 0) return;
  complain(key, version, status, reason(engine, status));
  take_silent(ev->u.request.id);
  hang_up(ev->u.request.id); /* the client tries again by itself */
}

static void on_reply(const kloop_event *ev) {
  /* Error 35 in version 0 and no API: ask again, in version 0 (KIP-511). */
  static const unsigned char OLDER[] = {0, UNSUPPORTED_VERSION, 0, 0, 0, 0};
  int key = ev->u.request.api_key, version = ev->u.request.api_version;
  uint32_t parts = take_silent(ev->user) ? 0 : 1;
  kloop_slice answer = {OLDER, sizeof OLDER};
  kloop_status status = ev->status;
  if (status == UNSUPPORTED_VERSION && key == API_VERSIONS) {
    status = 0;
  } else if (status == UNSUPPORTED_VERSION) {
    complain(key, version, status, "the broker behind does not serve it");
  } else if (status != 0) {
    complain(key, version, status, kloop_status_str(status));
  } else {
    answer = rewritten(ev);
    if (answer.data == NULL) status = KLOOP_E_PROTOCOL;
    complain(key, version, status, "an answer that this proxy cannot read");
  }
  if (status == 0) status = kloop_broker_respond(broker, ev->user, &answer, parts, 0, 0);
  if (status != 0) hang_up(ev->user);
}

static void on_event(const kloop_event *ev) {
  switch (ev->type) {
    case KLOOP_EV_REQUEST: on_request(ev); break;
    case KLOOP_EV_REPLY: on_reply(ev); break;
    case KLOOP_EV_POSTED: closing = 1; break;
    default: break;
  }
}

int main(int argc, char **argv) {
  kloop_prop upstream = {"bootstrap.servers", NULL};
  kloop_engine_config ec;
  kloop_broker_conf bc;
  kloop_conf cc;
  kloop_error err;
  if (kloop_engine_config_init(&ec, sizeof ec, KLOOP_ABI) != 0 ||
      kloop_broker_conf_init(&bc, sizeof bc, KLOOP_ABI) != 0 ||
      kloop_conf_init(&cc, sizeof cc, KLOOP_ABI) != 0)
    die("the library is older than this program");
  bc.listen = "127.0.0.1:9092";
  for (int i = 1; i < argc; i++) {
    if (is(argv[i], "--help"))
      help();
    else if (is(argv[i], "-b"))
      upstream.value = value_of(argv, &i);
    else if (is(argv[i], "--listen"))
      bc.listen = value_of(argv, &i);
    else
      unknown(argv[i]);
  }
  if (upstream.value == NULL) usage("-b BROKERS is missing");
  for (int key = 0; key < KEYS; key++)
    if (NAMES[key] != NULL) forwarded[key / 64] |= 1ull << key % 64;
  bc.host_apis = forwarded;
  bc.host_api_words = 2;
  ec.log = write_log;
  cc.props = &upstream;
  cc.prop_count = 1;
  if (kloop_engine_new(&ec, &engine, &err) != 0) die("%s", err.msg);
  signals_to(engine);
  if (kloop_client_new(engine, &cc, &client, &err) != 0) not_made(&err);
  if (kloop_broker_new(engine, &bc, &broker, &err) != 0) no_broker(bc.listen, &err);
  int32_t bound = kloop_broker_address(broker, host, sizeof host);
  if (bound < 0) die("its address: %s", reason(engine, bound));
  port = (uint32_t)bound;
  printf("listening on %s\n", host);
  fflush(stdout);
  *strrchr(host, ':') = '\0';
  if (host[0] == '[') { /* the brackets belong to the text, not to the address */
    memmove(host, host + 1, strlen(host));
    *strchr(host, ']') = '\0';
  }

  while (!closing) {
    kloop_event events[EVENTS];
    struct pollfd watch = {.fd = kloop_engine_fd(engine), .events = POLLIN};
    poll(&watch, 1, -1);
    int32_t n = kloop_poll(engine, events, EVENTS, 0);
    if (n < 0) die("poll: %s", reason(engine, n));
    for (int32_t i = 0; i < n; i++) {
      on_event(&events[i]);
      kloop_release(engine, &events[i].lease, 1);
    }
  }
  kloop_broker_free(broker);
  kloop_client_free(client);
  kloop_engine_free(engine);
  signals_off();
  return 0;
}
