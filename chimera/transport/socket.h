// TCP sockets, as much as a lifeline needs: non-blocking, closed by their owner, closed on exec.
// Internal to transport.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chimera {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  void close();

  // Appends what has come; false: the other side has closed, or the connection is broken.
  [[nodiscard]] bool read_into(std::string& text);
  // Sends what can be sent at once and drops it from `text`; false: the connection is broken.
  [[nodiscard]] bool write_from(std::string& text);

 private:
  int descriptor_ = -1;
};

// Listens on a free port of all interfaces. Throws Error (kIo).
[[nodiscard]] Socket listen_anywhere(std::uint16_t& port);

// A connection that has come; not open if there is none.
[[nodiscard]] Socket accept_from(const Socket& listener);

// This machine's addresses as others may reach it, those of loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();

// Waits up to wait_s seconds; not open if nobody answers there.
[[nodiscard]] Socket connect_to(const std::string& address, std::uint16_t port, double wait_s);

}  // namespace chimera
