// What travels on a lifeline: a kind, a length, and so many bytes. Internal to transport.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace chimera {

enum class FrameKind : std::uint8_t { kHello, kWelcome, kBeat, kAbort, kLeave, kAllLeft };

struct Frame {
  FrameKind kind = FrameKind::kBeat;
  std::string text;
};

// Longer ones are of no rank of ours.
inline constexpr std::uint32_t kLongestFrame = 8192;

inline void append_frame(std::string& out, FrameKind kind, std::string_view text) {
  text = text.substr(0, kLongestFrame);
  const auto size = static_cast<std::uint32_t>(text.size());
  out += static_cast<char>(kind);
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(size >> (8 * byte));
  out += text;
}

// Takes the first whole frame from `in`. Sets `bad` for what can be none.
inline std::optional<Frame> take_frame(std::string& in, bool& bad) {
  constexpr std::size_t kHead = 5;
  if (in.empty()) return {};
  const auto kind = static_cast<std::uint8_t>(in[0]);
  bad = kind > static_cast<std::uint8_t>(FrameKind::kAllLeft);
  if (bad || in.size() < kHead) return {};
  std::uint32_t size = 0;
  for (std::size_t byte = 4; byte > 0; --byte) {
    size = size << 8 | static_cast<unsigned char>(in[byte]);
  }
  bad = size > kLongestFrame;
  if (bad || in.size() < kHead + size) return {};
  Frame frame{static_cast<FrameKind>(kind), in.substr(kHead, size)};
  in.erase(0, kHead + size);
  return frame;
}

}  // namespace chimera
