/* A host that cannot be resolved is an event of the client with the reason's status, not a hang; what
 * cannot be asked for is refused when the client is made. */
#include "check.h"

static kloop_status make(kloop_engine *engine, const char *servers, const char *names,
                         kloop_client **client, kloop_error *err) {
  kloop_conf cfg;
  kloop_prop props[2];
  props[0].key = "bootstrap.servers", props[0].value = servers;
  props[1].key = "resolver.nameservers", props[1].value = names;
  CHECK_IS(kloop_conf_init(&cfg, sizeof cfg, KLOOP_ABI), KLOOP_OK);
  cfg.user = 2;
  cfg.props = props;
  cfg.prop_count = 2;
  return kloop_client_new(engine, &cfg, client, err);
}

int main(void) {
  kloop_engine *engine = check_engine();
  kloop_client *client = NULL;
  kloop_event events[4];
  kloop_error err;
  int32_t n = 0;

  CHECK_IS(make(engine, "no host:9092", "127.0.0.1", &client, &err), KLOOP_E_INVALID);
  CHECK(strstr(err.msg, "bootstrap.servers") != NULL);
  CHECK_IS(make(engine, "broker.invalid:9092", "a.name", &client, &err), KLOOP_E_INVALID);
  CHECK(strstr(err.msg, "resolver.nameservers") != NULL);

  /* Nobody listens at the port of the name server. */
  CHECK_IS(make(engine, "broker.invalid:9092", "127.0.0.1:1", &client, &err), KLOOP_OK);
  while (n == 0) n = kloop_poll(engine, events, 4, 10LL * 1000 * 1000 * 1000);
  CHECK_IS(n, 1);
  CHECK_IS(events[0].type, KLOOP_EV_ERROR);
  CHECK_IS(events[0].owner, 2);
  CHECK_IS(events[0].status, KLOOP_E_RESOLVE);
  CHECK(kloop_status_flags(events[0].status) & KLOOP_IS_RETRIABLE);
  CHECK_IS(events[0].u.error.topic, KLOOP_NO_TOPIC);
  kloop_client_free(client);
  kloop_engine_free(engine);
  return 0;
}
