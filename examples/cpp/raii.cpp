// A broker, a producer and a consumer without any library: handles and leases that free themselves.
// Compiles with -fno-exceptions -fno-rtti.
//
//   build/raii
//
// Prints each record that comes back: an empty value is a value, a tombstone is none.
#include <cstdio>
#include <cstdlib>
#include <kloop/kloop.hpp>
#include <utility>

template <class T>
static T must(const char *what, kloop::result<T> made) {
  if (!made) {
    std::fprintf(stderr, "raii: %s: %s\n", what, made.message());
    std::exit(1);
  }
  return std::move(*made);
}

static void print(kloop::record record) {
  const auto key = record.key().value_or("(no key)");
  const auto value = record.value();
  std::printf("%.*s = ", static_cast<int>(key.size()), key.data());
  if (!value) std::printf("(tombstone)");
  if (value) std::printf("'%.*s'", static_cast<int>(value->size()), value->data());
  for (kloop::header header : record.headers()) {
    const auto text = header.value().value_or("(null)");
    std::printf(", %.*s: %.*s", static_cast<int>(header.key().size()), header.key().data(),
                static_cast<int>(text.size()), text.data());
  }
  std::printf("\n");
}

int main() {
  const auto log = [](uint32_t level, std::string_view line) {
    std::fprintf(stderr, "kloop[%u]: %.*s\n", level, static_cast<int>(line.size()), line.data());
  };
  kloop::engine_config config;
  config.memory_limit = std::size_t{8} << 20;
  config.log_to(log);
  const auto engine = must("engine", kloop::engine::make(config));

  kloop::broker_config listen;
  listen.listen = "127.0.0.1:0";
  const auto broker = must("broker", kloop::broker::make(engine, listen));
  const auto address = broker.address();

  const auto client = must("client", kloop::client::make(engine, {{"bootstrap.servers", address.text}}));
  const auto producer = must("producer", kloop::producer::make(client, {{"linger.ms", "0"}}));
  const auto consumer = must("consumer", kloop::consumer::make(client));
  const auto topic = must("topic", client.topic("raii"));
  if (auto s = consumer.assign({{topic, 0, KLOOP_OFFSET_EARLIEST}}); !s) {
    std::fprintf(stderr, "raii: assign: %s\n", s.text());
    return 1;
  }

  const kloop_header headers[] = {kloop::make_header("from", "raii"),
                                  kloop::make_header("nothing", kloop::null_value)};
  const kloop_msg batch[] = {
      kloop::message(topic, "a value").key("full").headers(headers, 2).get(),
      kloop::message(topic, std::string_view()).key("empty").get(),
      kloop::message(topic, kloop::null_value).key("tombstone").get(),
  };
  uint32_t sent = 0, seen = 0;
  kloop::lease kept; // of the last batch: what it lends outlives the handler
  while (seen < 3) {
    if (sent < 3) {
      const int32_t took = producer.produce(batch + sent, 3 - sent); // 0: not yet
      if (took < 0) return std::fprintf(stderr, "raii: %s\n", kloop::status(took).text()), 1;
      sent += static_cast<uint32_t>(took);
    }
    const int32_t n = engine.poll(-1, [&](const kloop::event &ev, kloop::lease &&lease) {
      if (ev.type != KLOOP_EV_RECORDS) return; // the lease is given back
      kloop::records records(engine.get(), ev);
      for (kloop::record record : records) print(record), seen++;
      kept = std::move(lease);
    });
    if (n < 0) return std::fprintf(stderr, "raii: %s\n", kloop::status(n).text()), 1;
  }
  return 0;
}
