// A consumer in an asio io_context: prints the values of a topic's first partition from its beginning.
//
//   build/loops/asio_consumer BROKERS TOPIC [COUNT]      ends after COUNT records, or on SIGINT
#include <asio.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <kloop/adapters/asio.hpp>

static int die(const char *what, const char *why) {
  std::fprintf(stderr, "asio_consumer: %s: %s\n", what, why);
  std::exit(1);
}

int main(int argc, char **argv) {
  if (argc < 3) die("usage", "asio_consumer BROKERS TOPIC [COUNT]");
  const unsigned long count = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0;

  auto engine = kloop::engine::make();
  if (!engine) die("engine", engine.message());
  auto client = kloop::client::make(*engine, {{"bootstrap.servers", argv[1]}});
  if (!client) die("client", client.message());
  auto consumer = kloop::consumer::make(*client);
  if (!consumer) die("consumer", consumer.message());
  auto topic = client->topic(argv[2]);
  if (!topic) die("topic", topic.message());
  if (auto s = consumer->assign({{*topic, 0, KLOOP_OFFSET_EARLIEST}}); !s) die("assign", s.text());

  asio::io_context io(1);
  unsigned long seen = 0;
  kloop::asio_pump pump(
      io.get_executor(), engine->get(),
      [&](const kloop::event &ev) {
        if (ev.type == KLOOP_EV_ERROR) die("consumer", kloop::status(ev.status).text());
        if (ev.type != KLOOP_EV_RECORDS) return;
        kloop::records batch(engine->get(), ev);
        for (kloop::record record : batch) {
          if (count != 0 && seen == count) break;
          const auto text = record.value().value_or("(tombstone)");
          std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
          if (++seen == count) io.stop();
        }
        if (!batch.status()) die("records", batch.status().text());
      },
      [](kloop::status why) { die("poll", why.text()); });
  if (!pump) die("loop", "no descriptor is left");

  asio::signal_set interrupt(io, SIGINT);
  interrupt.async_wait([&](std::error_code, int) { io.stop(); });
  io.run();
  pump.stop(); // before the engine ends
  return 0;
}
