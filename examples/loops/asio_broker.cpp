// A Kafka broker in an asio io_context, on the memory log.
//
//   build/loops/asio_broker [HOST:PORT]      127.0.0.1:9092; port 0 picks one
//
// Prints `listening on HOST:PORT`; SIGTERM and SIGINT close it in order.
#include <asio.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <kloop/adapters/asio.hpp>

static int die(const char *what, const char *why) {
  std::fprintf(stderr, "asio_broker: %s: %s\n", what, why);
  std::exit(1);
}

int main(int argc, char **argv) {
  auto engine = kloop::engine::make();
  if (!engine) die("engine", engine.message());
  kloop::broker_config config;
  config.listen = argc > 1 ? argv[1] : "127.0.0.1:9092";
  auto broker = kloop::broker::make(*engine, config);
  if (!broker) die("broker", broker.message());
  const kloop::address address = broker->address();
  if (address.port < 0) die("broker", "has no address");

  asio::io_context io(1);
  kloop::asio_pump pump(
      io.get_executor(), engine->get(),
      [&](const kloop::event &ev) {
        if (ev.type == KLOOP_EV_CLOSED) io.stop();
      },
      [](kloop::status why) { die("poll", why.text()); });
  if (!pump) die("loop", "no descriptor is left");

  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](std::error_code, int) {
    if (auto s = broker->close(1000000000); !s) die("close", s.text()); // KLOOP_EV_CLOSED follows
  });
  std::printf("listening on %s\n", address.text);
  std::fflush(stdout);
  io.run();
  pump.stop(); // before the engine ends
  return 0;
}
