#include "chimera/transport/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "chimera/base/error.h"
#include "chimera/base/host.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr int kBacklog = 4096;
constexpr int kReadsAtOnce = 16;  // what floods one connection does not starve the others

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

Socket make_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Few bytes at a time, and each matters now.
void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool bind_and_listen(const Socket& socket, int family) {
  const int off = 0;
  sockaddr_storage any = {};
  any.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {  // takes IPv4 too
    ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return socket.is_open() &&
         ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&any), size) == 0 &&
         ::listen(socket.descriptor(), kBacklog) == 0;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof name;
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

// As getaddrinfo reads it back, with the interface of a link-local address.
std::string text_of(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int failed =
      ::getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text.data() : "";
}

bool is_connected(const Socket& socket, double wait_s) {
  pollfd waiting = {socket.descriptor(), POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(wait_s * 1000) + 1) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0;
}

}  // namespace

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool Socket::read_into(std::string& text) {
  std::array<char, 4096> buffer;
  for (int round = 0; round < kReadsAtOnce; ++round) {
    const ssize_t count = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (count == 0) return false;
    if (count < 0) return would_block();
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return true;
}

bool Socket::write_from(std::string& text) {
  while (!text.empty()) {
    const ssize_t count = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0) return would_block();
    text.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

Socket listen_anywhere(std::uint16_t& port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket = make_socket(family);
    if (!bind_and_listen(socket, family)) continue;
    port = port_of(socket);
    return socket;
  }
  throw Error(ErrorCode::kIo, cat("cannot listen for the other ranks on ", host_name(), ": ",
                                  std::strerror(errno), "; does this machine have TCP?"));
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) send_at_once(socket);
  return socket;
}

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> keep(first, ::freeifaddrs);
  std::vector<std::string> outside, inside;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::string text = text_of(*entry->ifa_addr);
    if (text.empty() || text.find('%') != std::string::npos) continue;  // of one link
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? inside : outside).push_back(std::move(text));
  }
  outside.insert(outside.end(), inside.begin(), inside.end());
  return outside;
}

Socket connect_to(const std::string& address, std::uint16_t port, double wait_s) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, ::freeaddrinfo);
  Socket socket = make_socket(found->ai_family);
  if (!socket.is_open()) return {};
  const int begun = ::connect(socket.descriptor(), found->ai_addr, found->ai_addrlen);
  if (begun != 0 && (errno != EINPROGRESS || !is_connected(socket, wait_s))) return {};
  send_at_once(socket);
  return socket;
}

}  // namespace chimera
