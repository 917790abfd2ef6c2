// asio, by the adapter.
#include <asio.hpp>
#include <chrono>
#include <cstring>
#include <kloop/adapters/asio.hpp>
#include <memory>

#include "check.h"
#include "loop.h"

namespace {
struct on_event {
  void operator()(const kloop_event &ev, kloop::lease &&) const { take_event(&ev); }
};
struct on_error {
  void operator()(kloop::status why) const { poll_failed(why.code()); }
};
std::unique_ptr<asio::io_context> io;
std::unique_ptr<kloop::asio_pump<on_event, on_error>> pump;
} // namespace

int loop_begin(const char *variant, kloop_engine *engine, uint32_t cap) {
  if (std::strcmp(variant, "asio") != 0) return 0;
  io = std::make_unique<asio::io_context>(1);
  pump = std::make_unique<kloop::asio_pump<on_event, on_error>>(io->get_executor(), engine, on_event{},
                                                                on_error{}, cap);
  CHECK(*pump);
  return 1;
}

void loop_turn(int ms) { io->run_one_for(std::chrono::milliseconds(ms)); }

void loop_end(void) {
  pump->stop();
  CHECK(!*pump);
  pump.reset();
  io->run(); // the wait is dropped, and nothing is left that keeps it going
  io.reset();
}
