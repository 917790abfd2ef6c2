// A producer in an asio io_context: a timer of the program's own makes a record every millisecond.
//
//   build/loops/asio_producer BROKERS TOPIC [COUNT]      COUNT: 20
#include <asio.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <kloop/adapters/asio.hpp>
#include <string>

static int die(const char *what, const char *why) {
  std::fprintf(stderr, "asio_producer: %s: %s\n", what, why);
  std::exit(1);
}

int main(int argc, char **argv) {
  if (argc < 3) die("usage", "asio_producer BROKERS TOPIC [COUNT]");
  const unsigned long count = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 20;
  if (count == 0) die("usage", "COUNT is 1 and above");

  auto engine = kloop::engine::make();
  if (!engine) die("engine", engine.message());
  auto client = kloop::client::make(*engine, {{"bootstrap.servers", argv[1]}});
  if (!client) die("client", client.message());
  auto producer = kloop::producer::make(*client, {{"linger.ms", "5"}});
  if (!producer) die("producer", producer.message());
  auto topic = client->topic(argv[2]);
  if (!topic) die("topic", topic.message());

  asio::io_context io(1);
  unsigned long made = 0, ended = 0, lost = 0;
  kloop::asio_pump pump(
      io.get_executor(), engine->get(),
      [&](const kloop::event &ev) {
        if (ev.type == KLOOP_EV_ERROR) die("client", kloop::status(ev.status).text());
        if (ev.type != KLOOP_EV_DELIVERED) return;
        ended += ev.u.delivered.count;
        if (ev.u.delivered.outcome != KLOOP_PERSISTED) lost += ev.u.delivered.count;
        if (ended == count) io.stop();
      },
      [](kloop::status why) { die("poll", why.text()); });
  if (!pump) die("loop", "no descriptor is left");

  asio::steady_timer timer(io);
  std::function<void(std::error_code)> tick = [&](std::error_code error) {
    if (error) return;
    const std::string value = "record " + std::to_string(made + 1);
    const int32_t took = producer->produce(kloop::message(*topic, value));
    if (took < 0) die("produce", kloop::status(took).text());
    made += static_cast<unsigned long>(took); // 0: no room, or the topic is not known yet
    if (made == count) return;
    timer.expires_after(std::chrono::milliseconds(1));
    timer.async_wait(tick);
  };
  tick({});
  io.run();
  pump.stop();
  std::fprintf(stderr, "%lu records sent, %lu not persisted\n", ended, lost);
  return lost ? 1 : 0;
}
