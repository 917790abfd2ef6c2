/* Peers that go away while sends to them are queued, in a program that left SIGPIPE as it was: each
 * case runs in a child, which must end by itself and not by a signal. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 12, PEERS = 8, REQUESTS = 1500, PAIRS = 64 };

/* Ways to go: in order; with a reset; in order and then with a reset, which makes the very next send
 * fail as one that signals. */
enum { CLOSE, RESET, BOTH, WAYS };

static void leave(int fd, int way) {
  const struct linger now = {1, 0};
  if (way == BOTH) shutdown(fd, SHUT_WR);
  if (way != CLOSE) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  CHECK_IS(close(fd), 0);
}

static int dial(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  CHECK_IS(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

static void turns(kloop_engine *engine, int n) {
  kloop_event events[64];
  while (n-- > 0) {
    int32_t count = kloop_poll(engine, events, 64, 1000000);
    CHECK(count >= 0);
    for (int32_t i = 0; i < count; i++) kloop_release(engine, &events[i].lease, 1);
  }
}

/* Writes requests for as long as they fit. */
static void ask(int fd) {
  static const char api_versions[14] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, -1, -1};
  for (int i = 0; i < REQUESTS; i++)
    if (send(fd, api_versions, sizeof api_versions, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
}

/* Peers of a broker that ask much, read nothing, and go before, between or behind its answers. */
static void broker_side(void) {
  char address[64];
  kloop_engine *engine = check_engine();
  kloop_broker *broker = check_broker(engine, address, sizeof address);
  int port = kloop_broker_address(broker, NULL, 0);
  for (int round = 0; round < ROUNDS; round++) {
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++) {
      if (i % 2) {
        fds[i] = dial(port);
      } else {
        int pair[2];
        CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        CHECK_IS(kloop_broker_adopt(broker, pair[0], NULL), KLOOP_OK);
        fds[i] = pair[1];
      }
      ask(fds[i]);
    }
    turns(engine, round % 4);
    for (int i = 0; i < PEERS; i++) leave(fds[i], (round + i / 2) % WAYS);
    turns(engine, 3);
  }
  turns(engine, 20);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

/* Between a client and its broker: what can be cut. */
struct proxy {
  int listener, port, to;
  int client[PAIRS], broker[PAIRS], n;
};

static void pass(int from, int to) {
  char bytes[16384];
  ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n > 0) send(to, bytes, (size_t)n, MSG_NOSIGNAL);
}

static void pump(struct proxy *p) {
  int fd = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK);
  if (fd >= 0) {
    CHECK(p->n < PAIRS);
    p->client[p->n] = fd;
    p->broker[p->n++] = dial(p->to);
  }
  for (int i = 0; i < p->n; i++) {
    pass(p->client[i], p->broker[i]);
    pass(p->broker[i], p->client[i]);
  }
}

static void cut(struct proxy *p, int way) {
  for (int i = 0; i < p->n; i++) {
    leave(p->client[i], way);
    leave(p->broker[i], way);
  }
  p->n = 0;
}

static kloop_broker *behind(kloop_engine *engine, struct proxy *p) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t len = sizeof at;
  char advertised[64];
  kloop_broker_conf cfg;
  kloop_broker *broker = NULL;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK_IS(bind(p->listener, (struct sockaddr *)&at, len), 0);
  CHECK_IS(listen(p->listener, 16), 0);
  CHECK_IS(getsockname(p->listener, (struct sockaddr *)&at, &len), 0);
  p->port = ntohs(at.sin_port);
  snprintf(advertised, sizeof advertised, "127.0.0.1:%d", p->port);
  CHECK_IS(kloop_broker_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.listen = "127.0.0.1:0";
  cfg.advertised = advertised;
  CHECK_IS(kloop_broker_new(engine, &cfg, &broker, NULL), KLOOP_OK);
  p->to = kloop_broker_address(broker, NULL, 0);
  return broker;
}

/* A client that is back at once. */
static kloop_client *impatient(kloop_engine *engine, const char *address) {
  kloop_conf cfg;
  kloop_client *client = NULL;
  const kloop_prop props[] = {{"bootstrap.servers", address},
                              {"retry.backoff.ms", "1"},
                              {"reconnect.backoff.ms", "1"},
                              {"reconnect.backoff.max.ms", "1"}};
  CHECK_IS(kloop_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.props = props;
  cfg.prop_count = 4;
  CHECK_IS(kloop_client_new(engine, &cfg, &client, NULL), KLOOP_OK);
  return client;
}

/* A producer whose connections are cut, each time with batches on their way and more coming. */
static void client_side(void) {
  char address[64];
  kloop_topic topic;
  struct proxy proxy = {0};
  kloop_engine *engine = check_engine();
  kloop_broker *broker = behind(engine, &proxy);
  snprintf(address, sizeof address, "127.0.0.1:%d", proxy.port);
  kloop_client *client = impatient(engine, address);
  const kloop_prop props[] = {{"linger.ms", "0"}, {"batch.size", "1"}};
  kloop_producer *producer = check_producer(client, props, 2);
  CHECK_IS(kloop_client_topic(client, "cut", 3, &topic), KLOOP_OK);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < 20; i++) {
      turns(engine, 1);
      pump(&proxy);
    }
    CHECK(proxy.n > 0);
    for (uint64_t i = 0; i < 20; i++) {
      kloop_msg msg = check_msg(topic, "a record that is lost", 21, i);
      CHECK(kloop_produce(producer, &msg, 1) >= 0);
      if (i == 10) cut(&proxy, round % WAYS);
    }
    turns(engine, 2);
  }
  cut(&proxy, CLOSE);
  close(proxy.listener);
  kloop_producer_free(producer);
  kloop_client_free(client);
  kloop_broker_free(broker);
  kloop_engine_free(engine);
}

static void in_a_child(const char *what, void (*run)(void)) {
  int status = 0;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    CHECK_IS(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    run();
    exit(0);
  }
  CHECK_IS(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fprintf(stderr, "%s: signal %d\n", what, WTERMSIG(status));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  in_a_child("the broker's side", broker_side);
  in_a_child("the client's side", client_side);
  return 0;
}
