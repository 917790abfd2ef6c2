/* Requests that the host answers itself, raw requests of its own, adopted sockets, and answers that
 * come too late. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

enum { DESCRIBE_CLUSTER = 60, FIND_COORDINATOR = 10 };

static kloop_engine *engine;

/* Polls until an event of this type comes; gives back the leases of the others. */
static kloop_event await(uint32_t type) {
  for (;;) {
    kloop_event event;
    CHECK_IS(kloop_poll(engine, &event, 1, 5000000000), 1);
    if (event.type == type) return event;
    if (event.type == KLOOP_EV_ERROR) CHECK_IS(event.status, 0);
    kloop_release(engine, &event.lease, 1);
  }
}

static kloop_broker *host_broker(char *address, size_t cap) {
  kloop_broker_conf cfg;
  kloop_broker *broker;
  kloop_error err;
  const uint64_t apis[1] = {1ull << DESCRIBE_CLUSTER | 1ull << FIND_COORDINATOR};
  CHECK_IS(kloop_broker_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.listen = "127.0.0.1:0";
  cfg.host_apis = apis;
  cfg.host_api_words = 1;
  cfg.user = 9;
  if (kloop_broker_new(engine, &cfg, &broker, &err) != KLOOP_OK) fprintf(stderr, "%s\n", err.msg);
  CHECK(kloop_broker_address(broker, address, cap) > 0);
  return broker;
}

static void a_request_goes_to_the_host_and_back(void) {
  char address[64];
  const unsigned char body[] = {0, 1, 'g', 0}; /* FindCoordinator v1: key "g", type 0 */
  const char part[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  engine = check_engine();
  kloop_broker *broker = host_broker(address, sizeof address);
  kloop_client *client = check_client(engine, address);
  kloop_slice sent = {body, sizeof body};
  kloop_id op = 0;
  CHECK_IS(kloop_client_request(client, -1, FIND_COORDINATOR, 1, sent, 4711, &op), KLOOP_OK);
  CHECK(op != 0);
  kloop_event request = await(KLOOP_EV_REQUEST);
  CHECK_IS(request.owner, 9);
  CHECK_IS(request.u.request.api_key, FIND_COORDINATOR);
  CHECK_IS(request.u.request.api_version, 1);
  CHECK_IS(request.u.request.body_len, sizeof body);
  CHECK(memcmp(request.u.request.body, body, sizeof body) == 0);
  kloop_slice parts[2] = {{part[0], 4}, {part[1], 4}};
  CHECK_IS(kloop_broker_respond(broker, request.u.request.id, parts, 2, 0, 0), KLOOP_OK);
  CHECK_IS(kloop_broker_respond(broker, request.u.request.id, parts, 2, 0, 0), KLOOP_E_STALE);
  kloop_release(engine, &request.lease, 1);
  kloop_event reply = await(KLOOP_EV_REPLY);
  CHECK_IS(reply.owner, 2);
  CHECK_IS(reply.user, 4711);
  CHECK_IS(reply.status, 0);
  CHECK_IS(reply.u.request.id, op);
  CHECK_IS(reply.u.request.body_len, 8);
  CHECK(memcmp(reply.u.request.body, "\1\2\3\4\5\6\7\10", 8) == 0);
  kloop_release(engine, &reply.lease, 1);
  CHECK_IS(kloop_client_cancel(client, op), KLOOP_E_STALE);

  /* A cancelled request still ends once; the answer to a connection that was ended is stale. */
  CHECK_IS(kloop_client_request(client, -1, FIND_COORDINATOR, 1, sent, 4712, &op), KLOOP_OK);
  request = await(KLOOP_EV_REQUEST);
  CHECK_IS(kloop_client_cancel(client, op), KLOOP_OK);
  reply = await(KLOOP_EV_REPLY);
  CHECK_IS(reply.user, 4712);
  CHECK_IS(reply.status, KLOOP_E_CANCELED);
  CHECK_IS(kloop_broker_disconnect(broker, request.u.request.conn), KLOOP_OK);
  CHECK_IS(kloop_broker_respond(broker, request.u.request.id, parts, 1, 0, 0), KLOOP_E_STALE);
  kloop_release(engine, &request.lease, 1);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* Reads a frame of `n` bytes behind its size, with the engine running. */
static void read_frame(int fd, unsigned char *frame, size_t cap, size_t *n) {
  unsigned char size[4];
  size_t got = 0, want = 4;
  for (int i = 0; i < 1000 && got < want; i++) {
    unsigned char *to = got < 4 ? size + got : frame + got - 4;
    ssize_t r = recv(fd, to, (got < 4 ? 4 : want) - got, MSG_DONTWAIT);
    if (r > 0) got += (size_t)r;
    if (got == 4 && want == 4) want = 4 + (size_t)(size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3]);
    CHECK(want <= cap + 4);
    kloop_event event;
    if (kloop_poll(engine, &event, 1, r > 0 ? 0 : 10000000) == 1) kloop_release(engine, &event.lease, 1);
  }
  CHECK(got == want);
  *n = want - 4;
}

static void an_adopted_socket_is_served(void) {
  /* ApiVersions v0, correlation id 7, client id "x" */
  const unsigned char request[] = {0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 7, 0, 1, 'x'};
  unsigned char frame[2048];
  size_t n;
  int pair[2];
  kloop_id conn = 0;
  kloop_broker_conf cfg;
  kloop_broker *broker;
  engine = check_engine();
  CHECK_IS(kloop_broker_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.advertised = "127.0.0.1:4242";
  CHECK_IS(kloop_broker_new(engine, &cfg, &broker, NULL), KLOOP_OK); /* listens nowhere */
  CHECK_IS(kloop_broker_address(broker, NULL, 0), KLOOP_E_CLOSED);
  CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  CHECK_IS(kloop_broker_adopt(broker, -1, &conn), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_adopt(broker, 1000, &conn), KLOOP_E_INVALID); /* no descriptor at all */
  CHECK_IS(kloop_broker_adopt(broker, pair[0], &conn), KLOOP_OK);
  CHECK(conn != 0);
  CHECK_IS(write(pair[1], request, sizeof request), sizeof request);
  read_frame(pair[1], frame, sizeof frame, &n);
  CHECK(n > 10 && memcmp(frame, "\0\0\0\7\0\0", 6) == 0); /* correlation id, no error */
  CHECK_IS(kloop_broker_disconnect(broker, conn), KLOOP_OK);
  CHECK_IS(kloop_broker_disconnect(broker, conn), KLOOP_E_STALE);
  CHECK_IS(read(pair[1], frame, 1), 0);
  close(pair[1]);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* Whether the peer is closed, with nobody polling the engine. */
static int ended(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* A broker that is freed takes every connection with it: one it has not heard of, and one whose
 * request the host holds while the grace of its close runs. */
static void a_freed_broker_leaves_no_connection(void) {
  /* FindCoordinator v1, correlation id 7, client id "x", key "g", type 0 */
  const unsigned char request[] = {0, 0, 0, 15, 0, 10, 0, 1, 0, 0, 0, 7, 0, 1, 'x', 0, 1, 'g', 0};
  char address[64];
  int held[2], untold[2];
  engine = check_engine();
  kloop_broker *broker = host_broker(address, sizeof address);
  CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, held), 0);
  CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, untold), 0);
  CHECK_IS(kloop_broker_adopt(broker, held[0], NULL), KLOOP_OK);
  CHECK_IS(write(held[1], request, sizeof request), sizeof request);
  kloop_event event = await(KLOOP_EV_REQUEST);
  kloop_release(engine, &event.lease, 1);
  /* An answer that no memory will ever hold is not one to try again. */
  static const unsigned char large[16 << 20];
  kloop_slice parts[2] = {{request, sizeof request}, {large, sizeof large}};
  CHECK_IS(kloop_broker_respond(broker, event.u.request.id, parts, 2, 0, 0), KLOOP_E_INVALID);
  CHECK_IS(kloop_broker_close(broker, 3600000000000), KLOOP_OK);
  CHECK_IS(kloop_broker_adopt(broker, untold[0], NULL), KLOOP_OK);
  CHECK(!ended(held[1]) && !ended(untold[1]));
  kloop_broker_free(broker);
  CHECK(ended(held[1]) && ended(untold[1]));
  close(held[1]);
  close(untold[1]);
  kloop_engine_free(engine);
}

static void closing_drains(void) {
  char address[64];
  kloop_topic topic;
  int delivered = 0, closed = 0;
  engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  kloop_client *client = check_client(engine, address);
  const kloop_prop props[] = {{"linger.ms", "60000"}, {"delivery.timeout.ms", "120000"}};
  kloop_producer *producer = check_producer(client, props, 2);
  CHECK_IS(kloop_client_topic(client, "closing", 7, &topic), KLOOP_OK);
  /* A message that cannot be, behind one that can: the count says that one was taken. */
  kloop_msg msg[2] = {check_msg(topic, "v", 1, 5), check_msg(topic, "v", 1, 6)};
  int32_t took;
  msg[1].flags = 1;
  while ((took = kloop_produce(producer, msg, 2)) == 0) {
    kloop_event event = await(KLOOP_EV_WRITABLE);
    kloop_release(engine, &event.lease, 1);
  }
  CHECK_IS(took, 1);
  CHECK_IS(kloop_produce(producer, &msg[1], 1), KLOOP_E_ABI);
  CHECK_IS(kloop_producer_close(producer, 5000000000), KLOOP_OK); /* does not wait for the linger */
  while (!closed) {
    kloop_event event;
    CHECK_IS(kloop_poll(engine, &event, 1, 5000000000), 1);
    if (event.type == KLOOP_EV_DELIVERED) {
      CHECK_IS(event.u.delivered.outcome, KLOOP_PERSISTED);
      delivered++;
    }
    if (event.type == KLOOP_EV_CLOSED) {
      CHECK_IS(event.owner, 3);
      closed = 1;
    }
    kloop_release(engine, &event.lease, 1);
  }
  CHECK_IS(delivered, 1);
  CHECK(kloop_produce(producer, msg, 1) < 0);
  CHECK_IS(kloop_client_close(client, 1000000000), KLOOP_OK);
  CHECK_IS(await(KLOOP_EV_CLOSED).owner, 2);
  CHECK_IS(kloop_broker_close(broker, 1000000000), KLOOP_OK);
  CHECK_IS(await(KLOOP_EV_CLOSED).owner, 1);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

int main(void) {
  a_request_goes_to_the_host_and_back();
  an_adopted_socket_is_served();
  a_freed_broker_leaves_no_connection();
  closing_drains();
  return 0;
}
